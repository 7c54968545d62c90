"""The parts of an audit by trial: cases, worlds, the pipeline, tests that tell worlds apart, and faults."""
