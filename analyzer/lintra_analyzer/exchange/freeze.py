"""Asking a server to freeze a cohort: what the others hold goes to it as differences to what it holds itself.

Short differences stand in the request. Long ones are sent before it, in pieces, so that no message grows with the
lists, and neither does what a party holds of it in memory.
"""

import asyncio
from collections.abc import Sequence

from lintra_analyzer.exchange.servers import Server
from lintra_protocol.cohort.differences import POSITION_BYTES, ListDifference, piece_hash, pieces_of
from lintra_protocol.cohort.report_ids import ComparedLists
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.errors import UnknownResourceError
from lintra_protocol.messages.documents import CohortRequest, Difference, DifferenceInPieces, Inventory, Signed

INLINE_BYTES = 1 << 20
"""What all differences may have together that stand in a request."""

ATTEMPTS = 3
"""How often pieces are sent to a server that began anew before it was asked to use them."""


async def ask_to_freeze(
    server: Server, path: str, inventories: Sequence[Signed[Inventory]], lists: ComparedLists
) -> bytes:
    """Send a server the inventories and how the others' lists differ from its own; return its signed cohort."""
    attempt = 0
    while True:
        attempt += 1
        differences = await _sent(server, path, len(inventories), lists)
        request = CohortRequest(inventories=tuple(inventories), differences=differences).canonical()
        try:
            return await server.ask("PUT", path, "cohort", body=request, message="cohort-request")
        except UnknownResourceError:
            if attempt == ATTEMPTS or all(isinstance(difference, Difference) for difference in differences):
                raise


async def _sent(
    server: Server, path: str, num_servers: int, lists: ComparedLists
) -> tuple[Difference | DifferenceInPieces, ...]:
    """Return what stands in the request, when the pieces of what does not are at the server."""
    left = INLINE_BYTES
    sent: list[Difference | DifferenceInPieces] = []
    for other in (other for other in range(num_servers) if other != server.index):
        difference = ListDifference(other, *await asyncio.to_thread(lists.difference, server.index, other))
        left -= POSITION_BYTES * len(difference.missing) + HASH_BYTES * len(difference.extra)
        if left >= 0:
            sent.append(Difference.spelled(other, difference.missing, difference.extra))
        else:
            sent.append(await _send_pieces(server, path, difference))
    return tuple(sent)


async def _send_pieces(server: Server, path: str, difference: ListDifference) -> DifferenceInPieces:
    missing_bytes, pieces = await asyncio.to_thread(pieces_of, difference)
    names: list[str] = []
    for piece in pieces:
        name = piece_hash(piece)
        await server.ask("PUT", f"{path}/pieces/{name}", "piece", body=piece, message="piece")
        names.append(name)
    return DifferenceInPieces(server=difference.server, missing_bytes=missing_bytes, pieces=tuple(names))
