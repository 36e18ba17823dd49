// The switches of the pages of messages: which version, channel and category the tables show. The choice is in the address,
// so that a link shows the same, and this browser keeps it for the other pages.
(() => {
  "use strict"
  const article = document.querySelector("article")
  const kept = "threeds-reference"
  const all = "" // the choice that hides nothing

  // A part is the heading of a version, with what stands below it.
  const parts = [...article.querySelectorAll("h2")].map((heading) => {
    const elements = [heading]
    for (let next = heading.nextElementSibling; next && next.tagName !== "H2"; next = next.nextElementSibling) elements.push(next)
    return { version: heading.textContent.trim(), elements }
  })

  // A row has the presence of a member: for PA and NPA, a letter for each channel.
  const rows = [...article.querySelectorAll("tbody tr")].flatMap((row) => {
    const cells = ["PA", "NPA"].map((name) => row.querySelector(`[data-l="${name}"]`))
    return cells[0] && cells[1] ? [{ row, cells, letters: cells.map((cell) => cell.textContent.split(" ")) }] : []
  })
  const choices = { Version: parts.map((part) => part.version) }
  if (rows.length) Object.assign(choices, { Channel: ["APP", "BRW", "3RI"], Category: ["PA", "NPA"] })
  const names = Object.keys(choices)

  function read() {
    const address = new URLSearchParams(location.search)
    const wanted = {}
    for (const name of names) wanted[name] = address.get(name.toLowerCase())
    if (Object.values(wanted).some(Boolean)) return wanted
    try {
      return JSON.parse(localStorage.getItem(kept)) ?? {}
    } catch {
      return {} // this browser keeps nothing
    }
  }

  const form = document.createElement("form")
  form.className = "switches"
  form.setAttribute("aria-label", "What the tables show")
  for (const name of names) {
    const label = document.createElement("label"), select = document.createElement("select")
    select.name = name
    select.append(new Option("all", all), ...choices[name].map((value) => new Option(value, value)))
    label.append(name + " ", select)
    form.append(label)
  }
  const said = document.createElement("p")
  said.setAttribute("role", "status")
  form.append(said)

  function show() {
    const [version, channel, category] = ["Version", "Channel", "Category"].map((name) => form.elements[name]?.value ?? all)
    for (const part of parts) {
      for (const element of part.elements) element.hidden = version !== all && part.version !== version
    }
    for (const { row, cells, letters } of rows) {
      let isDefined = false
      cells.forEach((cell, i) => {
        const shown = channel === all ? letters[i] : [letters[i][choices.Channel.indexOf(channel)]]
        cell.textContent = shown.join(" ")
        cell.hidden = category !== all && category !== choices.Category[i]
        isDefined ||= !cell.hidden && shown.some((letter) => letter !== "–")
      })
      row.hidden = !isDefined
    }
    for (const head of article.querySelectorAll("thead th")) {
      head.hidden = category !== all && choices.Category.includes(head.textContent) && head.textContent !== category
    }
    const inVersion = rows.filter(({ row }) => !row.closest("table").hidden)
    const shown = inVersion.filter(({ row }) => !row.hidden)
    said.textContent = rows.length ? `${shown.length} of ${inVersion.length} members` : ""
  }

  // keep writes the choice into the address, and into this browser.
  function keep() {
    const address = new URL(location.href), choice = {}
    for (const name of names) {
      choice[name] = form.elements[name].value
      address.searchParams.delete(name.toLowerCase())
      if (choice[name] !== all) address.searchParams.set(name.toLowerCase(), choice[name])
    }
    history.replaceState(null, "", address)
    try {
      localStorage.setItem(kept, JSON.stringify(choice))
    } catch {
      // this browser keeps nothing
    }
  }

  // reveal shows all versions if the address names an anchor in one that is hidden.
  function reveal() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)))
    if (!target || !article.contains(target) || target.offsetParent) return
    form.reset()
    show()
    target.scrollIntoView()
  }

  const wanted = read()
  for (const name of names) {
    if (choices[name].includes(wanted[name])) form.elements[name].value = wanted[name]
  }
  parts[0].elements[0].before(form)
  form.addEventListener("change", () => {
    show()
    keep()
  })
  form.addEventListener("submit", (event) => event.preventDefault())
  addEventListener("hashchange", reveal)
  show()
  reveal()
})()
