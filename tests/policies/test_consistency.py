from __future__ import annotations

import denoisers
import pytest
import torch

import small
from mgp.data.demonstrations import keyed_generator
from mgp.errors import ConfigError

WHERE = (4, 12, small.ACTION)


def made_of(**changes):
    made = small.untrained(small.tiny_of("consistency-policy", **changes))
    for weight in made.unet.interval.mlp[-1].parameters():  # as if something had been learned
        torch.nn.init.normal_(weight)
    return made


def test_at_the_boundary_it_is_the_identity():
    made, x = made_of(), torch.randn(WHERE)
    condition = torch.randn(4, made.condition_width)
    with torch.inference_mode():
        for t in (torch.full((4,), 0.02), torch.tensor([0.02, 0.5, 7.0, 80.0])):
            torch.testing.assert_close(made.jump(x, t, t, condition), x)  # a jump to where one is
        least = torch.full((4,), 0.02)
        torch.testing.assert_close(made.denoised(made.teacher, x, least, condition), x)


def test_times_go_from_noise_to_actions():
    made = made_of()
    times = made.time(torch.arange(80))
    assert times[0].item() == pytest.approx(80.0, rel=1e-5)
    assert times[-1].item() == pytest.approx(0.02, rel=1e-4)
    assert (times.diff() < 0).all()


def test_the_teachers_step_is_exact_to_second_order():
    """Where all data are one point d, the field is (x - d) / t and x = d + t e goes straight."""
    made, point, e = made_of(), torch.rand(WHERE) - 0.5, torch.randn(WHERE)
    made.denoised = lambda network, x, t, condition: point
    t, u = torch.tensor([80.0, 2.0, 0.5, 0.1]), torch.tensor([60.0, 1.5, 0.5, 0.02])
    moved = made.teacher_step(point + t[:, None, None] * e, t, u, torch.zeros(4, 1))
    torch.testing.assert_close(moved, point + u[:, None, None] * e)


def test_the_student_starts_as_the_teacher():
    made = small.untrained(small.tiny_of("consistency-policy"))
    teacher, student = made.stages()
    first, second = made.begin_stage(teacher), made.begin_stage(student)
    assert {name.partition(".")[0] for name in first} == {"auxiliary", "encoder", "teacher"}
    assert {name.partition(".")[0] for name in second} == {"unet"}, "the teacher knows these features"
    x, t, condition = torch.randn(WHERE), torch.tensor([0.1, 1.0, 9.0, 80.0]), torch.randn(4, made.condition_width)
    least = torch.full((4,), 0.02)
    with torch.inference_mode():
        clean = made.denoised(made.teacher, x, t, condition)
        torch.testing.assert_close(made.denoised(made.unet, x, t, condition, least), clean)
    assert not any(weight.requires_grad for weight in made.teacher.parameters())


def test_both_losses_teach_the_student_and_none_the_teacher():
    made, data = small.untrained(small.tiny_of("consistency-policy")), small.demonstrations()
    stage = made.stages()[1]
    made.begin_stage(stage)
    made.train()
    loss, figures = made.loss(stage, made.source(stage, data).draw(8, keyed_generator(0)), keyed_generator(1))
    auxiliary = made.config.training.auxiliary * figures["regression"]
    torch.testing.assert_close(figures["ctm"] + figures["dsm"] + auxiliary, loss)
    (gradient,) = torch.autograd.grad(figures["ctm"], made.unet.out[1].weight, retain_graph=True)
    assert gradient.abs().max() > 0
    loss.backward()
    assert all(weight.grad is None for weight in made.teacher.parameters())


def test_one_jump_or_three():
    made = made_of()
    asked = []
    network = made.unet.forward
    made.unet.forward = lambda x, t, *more: (asked.append(t[0].item()), network(x, t, *more))[1]
    condition = torch.randn(2, made.condition_width)
    generators = lambda: [keyed_generator(row) for row in range(2)]  # noqa: E731
    with torch.inference_mode():
        once = made.sample(condition, generators())
        assert len(asked) == 1
        thrice = made.with_sampling(steps=3).sample(condition, generators())
    assert len(asked) == 4
    assert asked[1] > asked[2] > asked[3]
    assert once.abs().max() <= 1
    assert not torch.equal(once, thrice)
    with pytest.raises(ConfigError, match="2"):
        made.with_sampling(steps=2)


def test_learns_a_toy_set_by_heart():
    share, made = denoisers.overfit("consistency-policy", 50)
    assert share < 0.3
    data = small.demonstrations(lengths=(12,))
    assert denoisers.error(made.with_sampling(steps=3), data) < 0.4
