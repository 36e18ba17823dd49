// The console works without this. It copies what is shown once.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy).textContent
    try {
      await navigator.clipboard.writeText(text)
      button.querySelector("span").textContent = "Copied"
    } catch {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copy))
    }
  })
}
