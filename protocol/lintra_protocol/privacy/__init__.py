"""The mathematics of every privacy claim: pure functions of public numbers, without data or randomness."""
