"""Kinds of mechanisms on the analyst's side: how each is specified, planned and decoded."""
