// Says which window a slider stands at while it is moved. Without this program the page says it once it is sent.
for (const slider of document.querySelectorAll("input[type=range]")) {
  const shown = document.querySelector("output[for=" + slider.id + "]");
  slider.addEventListener("input", () => (shown.value = slider.value));
}
