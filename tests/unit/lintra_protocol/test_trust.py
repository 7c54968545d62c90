"""The three sentences say what a promise rests on, what is left without it, and who decides that."""

from lintra_protocol.trust import NO_BOUND, trust_in_words
from support import make_task


def test_two_layers_say_what_is_left_if_everybody_else_is_invented() -> None:
    task = make_task("sum", min_clients=200, max_corrupt_clients=10, noise="both")
    rests, left, enrolled = trust_in_words(task)
    assert rests == "Epsilon 1 at delta 0.000001 as long as at most 10 of the 200 are not real people."
    assert left == "At most epsilon 3 if everybody but you is invented."
    assert enrolled == "Anybody who reaches the servers can take a place, any number of times."


def test_one_layer_says_how_little_own_noise_leaves() -> None:
    rests, left, _ = trust_in_words(make_task("sum", min_clients=200))
    assert rests.endswith("as long as all of the 200 are real people.")
    assert left == "At most epsilon 20.9 if everybody but you is invented, which your own noise leaves."


def test_noise_of_servers_rests_on_one_of_them() -> None:
    rests, left, _ = trust_in_words(make_task("sum", noise="servers"))
    assert rests == "Epsilon 1 at delta 0.000001, whoever the others are."
    assert "one honest server is enough" in left


def test_a_kind_without_a_bound_says_so() -> None:
    _, left, _ = trust_in_words(make_task("second_moment_wishart", min_clients=300, columns=1))
    assert left == NO_BOUND
