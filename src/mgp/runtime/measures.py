"""What a policy server counts and times, by name."""

from __future__ import annotations

from mgp import __version__
from mgp.runtime.metrics import ROWS, Counter, Gauge, Histogram, Metric, exposition
from mgp.runtime.refusals import NAMES

GUARDS = ("missing", "stale", "after-gap")  # of observations; those that were refused are among the refusals


class Measures:
    def __init__(self, method: str = "", task: str = ""):
        self.info = Gauge("mgp_info", "What is served.", {"version": __version__, "method": method, "task": task}, 1)
        self.clients = Gauge("mgp_clients", "Connections that are open.")
        self.connections = Counter("mgp_connections_total", "Connections that were opened.")
        self.turned_away = Counter(
            "mgp_turned_away_total", "Connections refused.", "why", ("key", "address", "clients")
        )
        self.episodes = Counter("mgp_episodes_total", "Episodes that began.")
        self.requests = Counter("mgp_requests_total", "Messages of clients.")
        self.refusals = Counter("mgp_refusals_total", "Requests refused.", "name", (*NAMES, "too-large"))
        self.guards = Counter("mgp_guard_events_total", "Observations that were not used as they are.", "event", GUARDS)
        self.misses = Counter("mgp_deadline_misses_total", "Replies later than the client's deadline.")
        self.throttled = Counter("mgp_throttled_total", "Messages that had to wait: the client was above its rate.")
        self.plans = Counter("mgp_plans_total", "Plans that were made.")
        self.request_seconds = Histogram("mgp_request_seconds", "From a request's arrival to its reply.")
        self.waiting_seconds = Histogram("mgp_waiting_seconds", "How long a plan waited for others to be made.")
        self.plan_seconds = Histogram("mgp_plan_seconds", "How long a plan, or several at once, took to be made.")
        self.batch = Histogram("mgp_plan_rows", "Plans that were made at once.", ROWS)
        self.largest_batch = Gauge("mgp_plan_rows_limit", "Most plans that are made at once: as many as pay.", value=1)

    def text(self) -> str:
        return exposition(value for value in vars(self).values() if isinstance(value, Metric))
