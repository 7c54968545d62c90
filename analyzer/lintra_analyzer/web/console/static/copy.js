// Puts a button above each block that can be copied. Without this program the text can be selected as usual.
for (const block of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy: " + block.dataset.copy);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
    } catch {
      // The page did not come over an encrypted connection, or the reader forbids it.
      getSelection().selectAllChildren(block);
      button.textContent = "Selected: press Ctrl-C";
    }
  });
  block.before(button);
}
