"""The reference of what programs import, by autodoc from the docstrings."""

FACES = {
    "lintra_analysis": ("The analyst's library", ["lintra_analysis"]),
    "lintra_client": ("The client's library", ["lintra_client"]),
    "lintra_curator": ("A trusted curator's library", ["lintra_curator"]),
    "lintra_protocol": (
        "What all parties agree on",
        [
            "lintra_protocol.ideal", "lintra_protocol.task", "lintra_protocol.crypto.ring",
            "lintra_protocol.crypto.sharing", "lintra_protocol.noise.discrete_gaussian",
            "lintra_protocol.noise.clipping", "lintra_protocol.privacy.gaussian", "lintra_protocol.privacy.discrete",
            "lintra_protocol.privacy.joint", "lintra_protocol.privacy.leverage", "lintra_protocol.rules.release",
            "lintra_protocol.errors",
        ],
    ),
}  # fmt: skip
"""The packages that programs may import, what each is, and the modules that are shown."""


def face_page(name: str) -> str:
    """Return the page of one package; Sphinx fills it in from the docstrings."""
    title, modules = FACES[name]
    parts = [f"# {title}: `{name}`\n"]
    for module in modules:
        parts += [f"## `{module}`\n"] if len(modules) > 1 else []
        parts += ["```{eval-rst}", f".. automodule:: {module}", "   :members:", "```\n"]
    return "\n".join(parts)
