"""Who is let in: by which token, until when, and as what."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lintra_analyzer.access import CODE_SECONDS, LINK, SESSION_SECONDS, Access, Holder
from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.storage.database import TrustedCounter, open_database
from lintra_analyzer.storage.trusted_file import TrustedFile
from lintra_analyzer.storage.users import MOST_SESSIONS, Users
from lintra_protocol.errors import ForbiddenError, InvalidMessageError, UnauthorizedError, UnknownResourceError
from lintra_service.bearer_tokens import new_token, token_hash
from support.analyzer_world import seeded

FIXED = new_token(seeded("fixed"))
DAY = 86_400


@dataclass
class Door:
    folder: Path
    now: int = 1_800_000_000
    access: Access = field(init=False)

    def __post_init__(self) -> None:
        self.counter = TrustedCounter(open_database(self.folder / "a.sqlite"))
        self.access = self.another()

    def another(self) -> Access:
        """Return what a second process on the same folder would use."""
        self.users = Users(TrustedFile(self.folder / "keys", self.counter, seeded("trusted")))
        return Access([token_hash("x"), token_hash(FIXED)], self.users, lambda: self.now, seeded("door"))

    def add(self, name: str = "Ada", **changes: object) -> tuple[str, str]:
        given = {"role": "analyst", "scope": Scope(), "seconds": DAY, **changes}
        secret, made = self.access.add(name, **given)  # type: ignore[arg-type]
        return secret, made.token_id

    def lets_in(self, token: str) -> bool:
        try:
            self.access.holder(f"Bearer {token}")
        except UnauthorizedError:
            return False
        return True

    def remembers(self, session: str) -> bool:
        try:
            self.access.holder(None, session)
        except UnauthorizedError:
            return False
        return True


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Door:
    return Door(tmp_path_factory.mktemp("door"))


def test_only_a_known_token_opens(door: Door) -> None:
    for known in (FIXED, door.add()[0]):
        assert door.access.holder(f"Bearer {known}") == door.access.holder(f"bearer {known} ")
        hashed = token_hash(known)
        for wrong in (None, "", "Bearer", "Bearer ", f"Basic {known}", known, f"Bearer {known}x", f"Bearer {hashed}"):
            with pytest.raises(UnauthorizedError):
                door.access.holder(wrong)


def test_a_token_of_the_settings_is_an_operators_without_end(door: Door) -> None:
    door.access.holder(f"Bearer {FIXED}").require("operator")
    assert not door.access.lets_nobody_in


def test_each_role_may_do_what_the_ones_below_it_may_and_no_more(door: Door) -> None:
    may = {"viewer": {"viewer"}, "analyst": {"viewer", "analyst"}, "operator": {"viewer", "analyst", "operator"}}
    for role, allowed in may.items():
        holder = door.access.holder(f"Bearer {door.add(role=role)[0]}")
        assert {other for other in may if holder.may(other)} == allowed  # type: ignore[arg-type]
        for other in may.keys() - allowed:
            with pytest.raises(ForbiddenError, match=f"needs the role {other}"):
                holder.require(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", [Scope(tasks=("A" * 43,)), Scope(populations=("ward 3",)), Scope(("x",), ("y",))])
def test_a_token_with_a_scope_gives_and_takes_no_tokens(scope: Scope) -> None:
    """None is made for an operator; one that is found all the same, in an old file, does not open what concerns all."""
    with pytest.raises(ForbiddenError, match="for some tasks only gives and takes no tokens"):
        Holder("", "Ada", "operator", scope).require("operator")
    Holder("", "Ada", "operator", scope).require("analyst")
    Holder("", "Ada", "operator", Scope()).require("operator")
    for role in ("analyst", "viewer"):
        for each in (scope, Scope()):
            with pytest.raises(ForbiddenError, match="needs the role operator"):
                Holder("", "Ada", role, each).require("operator")


def test_a_token_ends_at_its_time_and_its_sessions_with_it(door: Door) -> None:
    token, _ = door.add(seconds=100)
    session = door.access.sign_in(token).secret
    door.now += 99
    assert door.lets_in(token)
    assert door.remembers(session)
    door.now += 1
    assert not door.lets_in(token)
    assert not door.remembers(session)
    with pytest.raises(UnauthorizedError, match="expired"):
        door.access.sign_in(token)


def test_a_revoked_token_ends_at_once_with_its_sessions_in_every_process(door: Door) -> None:
    token, token_id = door.add()
    kept, _ = door.add()
    session, other = door.access.sign_in(token).secret, door.access.sign_in(kept).secret
    door.another().revoke(token_id)
    assert not door.lets_in(token)
    assert not door.remembers(session)
    assert door.lets_in(kept)
    assert door.remembers(other)
    revoked_at = {each.token_id: each.revoked_at for each in door.access.tokens()}
    door.now += 5
    door.access.revoke(token_id)  # again: the first time counts
    assert {each.token_id: each.revoked_at for each in door.access.tokens()} == revoked_at


@pytest.mark.parametrize("wrong", ["", "0", "%", "_" * 12, "0" * 12])
def test_only_a_whole_identifier_revokes(door: Door, wrong: str) -> None:
    token, _ = door.add()
    with pytest.raises(UnknownResourceError):
        door.access.revoke(wrong)
    assert door.lets_in(token)


def test_a_session_ends_after_a_working_day_or_when_its_holder_signs_out(door: Door) -> None:
    first, second = door.access.sign_in(FIXED).secret, door.access.sign_in(FIXED).secret
    door.access.sign_out(first)
    assert not door.remembers(first)
    door.now += SESSION_SECONDS - 1
    assert door.remembers(second)
    door.now += 1
    assert not door.remembers(second)


def test_a_token_has_so_many_sessions_that_the_file_stays_small(tmp_path: Path) -> None:
    door = Door(tmp_path)
    token, _ = door.add()
    first = door.access.sign_in(token).secret
    door.now += 1
    second = door.access.sign_in(token).secret
    for number in range(MOST_SESSIONS - 2):
        door.users.begin_session(f"{number}", token_hash(token), door.now + DAY, door.now)
    assert door.remembers(first)
    assert door.remembers(door.access.sign_in(token).secret)
    assert not door.remembers(first)
    assert door.remembers(second)


def test_a_link_signs_in_once_and_soon(door: Door) -> None:
    code = door.access.sign_in_code()
    session = door.access.sign_in_by_code(code)
    door.access.holder(None, session.secret).require("operator")
    late = door.access.sign_in_code()
    door.now += CODE_SECONDS
    for used in (code, late, "", FIXED):
        with pytest.raises(UnauthorizedError):
            door.access.sign_in_by_code(used)


def test_links_that_are_over_leave_the_list_at_once_and_the_database_with_the_next_link(tmp_path: Path) -> None:
    door = Door(tmp_path)
    _, ada = door.add(seconds=60)
    door.access.sign_in_by_code(door.access.sign_in_code())
    used, waiting = door.access.tokens()[0], door.access.sign_in_code()
    assert len([token for token in door.access.tokens() if token.name == LINK]) == 2
    door.access.revoke(used.token_id)
    assert [token.name for token in door.access.tokens()].count(LINK) == 1
    assert len(door.users.all()) == 3
    door.now += SESSION_SECONDS + CODE_SECONDS
    # A token that somebody named stays after its end, to be seen.
    assert [token.token_id for token in door.access.tokens()] == [ada]
    door.access.sign_in_code()
    assert [token.name for token in door.users.all()] == [LINK, "Ada"]
    with pytest.raises(UnauthorizedError):
        door.access.sign_in_by_code(waiting)


def test_no_token_no_session_and_no_code_is_kept_as_it_is(door: Door) -> None:
    token, _ = door.add()
    secrets = [token, FIXED, door.access.sign_in(token).secret, door.access.sign_in_code()]
    stored = b"".join(path.read_bytes() for path in door.folder.rglob("*") if path.is_file())
    assert token_hash(token).encode() in stored
    assert not [secret for secret in secrets if secret.encode() in stored]
    shown = f"{door.access.tokens()} {door.access.holder(f'Bearer {token}')} {door.access.sign_in(token)}"
    assert token_hash(token) not in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"name": " "},
        {"name": "a\nb"},
        {"name": "a" * 201},
        {"seconds": 0},
        {"role": "operator", "scope": Scope(populations=("a",))},
    ],
)
def test_a_token_without_a_name_or_time_or_of_half_an_operator_is_not_made(
    door: Door, changes: dict[str, object]
) -> None:
    before = door.access.tokens()
    with pytest.raises(InvalidMessageError):
        door.add(**changes)  # type: ignore[arg-type]
    assert door.access.tokens() == before


def test_a_scope_holds_the_tasks_it_names_and_those_of_its_populations() -> None:
    scope = Scope(tasks=("t",), populations=("p",))
    assert scope.holds("t", "q")
    assert scope.holds("u", "p")
    assert not scope.holds("u", "q")
    assert scope.takes_new("p")
    assert not Scope(tasks=("t",)).takes_new("everybody")
    assert Scope().is_everything
    assert Scope().holds("u", "q")
    assert Scope().takes_new("q")
