"""Blocks of sealed reports and the uploads that bring them, a second time: plain bytes, no code of the package."""

from plain import H, framed


def block_context(task_id: bytes, server: int, key_id: bytes, heads: list[bytes], count: int | None = None) -> bytes:
    """What the shares of some reports are sealed beside; `count` is their number, unless it is to be a wrong one."""
    counted = (len(heads) if count is None else count).to_bytes(2, "big")
    together = H("share block context", task_id, key_id, counted, b"".join(heads))
    return framed("share block", b"client", server.to_bytes(2, "big"), together)


def block(task_id: bytes, key_id: bytes, heads: list[bytes], sealed: bytes, magic: bytes = b"LR\x01") -> bytes:
    """Of each header the time and the commitments stand in a block; all the rest of it follows from the task."""
    named = b"".join(head[35:43] + head[44:-2] for head in heads)
    return len(heads).to_bytes(2, "big") + key_id + magic + task_id + named + sealed


def upload(*blocks: bytes, passes: list[bytes] | None = None) -> bytes:
    before = b"" if passes is None else len(passes).to_bytes(2, "big") + b"".join(passes)
    return before + len(blocks).to_bytes(2, "big") + b"".join(blocks)
