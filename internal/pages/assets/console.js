// The console works without this. It copies what is shown once, and lets the arrow keys go from message to message.
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
for (const lanes of document.querySelectorAll("[data-steps]")) {
  lanes.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    const at = event.target.closest("a")
    const links = [...lanes.querySelectorAll("a")]
    if (!by || !at || event.altKey || event.ctrlKey || event.metaKey) return
    const next = links[links.indexOf(at) + by]
    if (!next) return
    event.preventDefault()
    next.focus()
  })
}
