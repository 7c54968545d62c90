"""What an audit by trial is made of: cases, worlds, the pipeline, tests that tell worlds apart, and faults."""
