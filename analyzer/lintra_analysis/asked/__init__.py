"""From what an analyst asks for to a task: one module a kind of mechanism, looked up by that kind."""
