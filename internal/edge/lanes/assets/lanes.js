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
