"""One module a command: `main(arguments)` parses with tyro and calls the library."""
