"""`lintra audit verify`: attacks on real servers of verified tasks, with and without a rule."""
