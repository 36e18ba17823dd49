// The search of the documentation. It ranks the entries of docsIndex, and shows the best pages with their best entries.
(() => {
  "use strict"
  const { pages, entries } = globalThis.docsIndex // entries: page, anchor, title, heading, text

  const common = new Set(("a an and any are as at be been by can do does for from get give given has have how i if in into is it " +
    "its may me must my of on or our shall should so than that the their them then there this to us was we what when where " +
    "which who why will with you your").split(" "))

  // stem makes one of the forms of a word: pay, pays; expire, expired.
  function stem(word) {
    if (!/^[a-z]{5,}$/.test(word)) return word
    return word.replace(/ies$/, "y").replace(/s$/, "").replace(/(?:ing|ed)$/, "").replace(/e$/, "")
  }

  // wordsOf returns the words of a text. Groups of digits are one number, as on a card. The parts of a name such as
  // acctNumber follow it.
  function wordsOf(text) {
    const whole = text.replace(/\b\d{4}(?: \d{2,4})+\b/g, (number) => number.replaceAll(" ", ""))
      .normalize("NFD").replace(/[\u0300-\u036f]/g, "")
    const found = []
    for (const word of whole.match(/[A-Za-z0-9]+/g) ?? []) {
      const low = word.toLowerCase()
      if (common.has(low)) continue
      found.push(stem(low))
      const parts = word.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g)
      if (parts?.length > 1 && /[a-z][A-Z]/.test(word)) found.push(...parts.map((part) => stem(part.toLowerCase())))
    }
    return found
  }

  // How much a word counts where it stands.
  const inTitle = 6, inHeading = 3, inPageTitle = 2, inText = 1

  // An index has the weight of each word in each document.
  function newIndex() {
    const documents = new Map()
    return {
      documents,
      add(document, text, weight) {
        for (const word of wordsOf(text)) {
          let all = documents.get(word)
          if (!all) documents.set(word, all = new Map())
          all.set(document, (all.get(document) ?? 0) + weight)
        }
      },
    }
  }

  let built // made by the first question
  function build() {
    const parts = newIndex(), whole = newIndex()
    entries.forEach(([page, , title, heading, text], i) => {
      parts.add(i, title, inTitle)
      parts.add(i, heading, inHeading)
      parts.add(i, pages[page][1], inPageTitle)
      parts.add(i, text, inText)
      whole.add(page, title + " " + text, inText)
    })
    pages.forEach(([, title], page) => whole.add(page, title, inTitle * 4))
    return { parts: parts.documents, whole: whole.documents, vocabulary: [...parts.documents.keys()] }
  }

  const beginning = 0.5 // what a word counts that only begins with the word of the question
  const saturation = 4 // the weight of a word from which more of it counts little

  // score returns the score of each document that has a word of the question.
  function score(question, index, total) {
    const scores = new Map()
    for (const word of question) {
      const best = new Map()
      const matches = [[word, 1]]
      if (word.length > 2) {
        for (const known of built.vocabulary) if (known !== word && known.startsWith(word)) matches.push([known, beginning])
      }
      let count = 0
      for (const [known, quality] of matches) {
        for (const [document, weight] of index.get(known) ?? []) {
          const points = quality * weight / (weight + saturation)
          if (!best.has(document)) count++
          if (points > (best.get(document) ?? 0)) best.set(document, points)
        }
      }
      const rarity = Math.log(1 + total / (count + 1))
      for (const [document, points] of best) {
        const s = scores.get(document) ?? { points: 0, words: 0 }
        s.points += points * rarity
        s.words++
        scores.set(document, s)
      }
    }
    for (const [document, s] of scores) scores.set(document, s.points * (s.words / question.length) ** 2)
    return scores
  }

  const wholePage = 0.6 // what the words of a whole page count beside those of its best entry
  const mostPages = 12, mostEntries = 4

  // search returns the best pages, each with its best entries.
  function search(text) {
    built ??= build()
    const question = [...new Set(text.trim().split(/\s+/).length > 0 ? wordsOf(text) : [])]
    const low = text.trim().toLowerCase()
    const byPage = new Map()
    for (const [i, points] of score(question, built.parts, entries.length)) {
      const [page, , title] = entries[i]
      const all = byPage.get(page) ?? []
      all.push([points * (title.toLowerCase() === low ? 2 : 1), i])
      byPage.set(page, all)
    }
    const wholes = score(question, built.whole, pages.length)
    const found = []
    for (const [page, all] of byPage) {
      all.sort((a, b) => b[0] - a[0] || b[1] - a[1])
      const seen = new Set(), best = []
      for (const [, i] of all) {
        if (best.length < mostEntries && !seen.has(entries[i][2])) best.push(i)
        seen.add(entries[i][2])
      }
      found.push({ page, points: all[0][0] + wholePage * (wholes.get(page) ?? 0), best })
    }
    return found.sort((a, b) => b.points - a.points || a.page - b.page).slice(0, mostPages)
  }

  // around returns the part of a text that has a word of the question.
  function around(text, question) {
    const low = text.toLowerCase()
    const at = Math.max(0, Math.min(...question.map((word) => low.indexOf(word)).filter((i) => i >= 0), low.length) - 60)
    const start = at < 20 || at >= low.length ? 0 : low.indexOf(" ", at) + 1
    const part = text.slice(start, start + 200)
    return (start > 0 ? "… " : "") + part + (start + 200 < text.length ? " …" : "")
  }

  function element(name, text, ...children) {
    const made = document.createElement(name)
    made.append(text, ...children)
    return made
  }

  function linkTo(i) {
    const [page, anchor, title, heading] = entries[i]
    const link = element("a", heading && heading !== pages[page][1] ? `${heading}: ${title}` : title)
    link.href = pages[page][0] + (anchor && "#" + anchor)
    return link
  }

  const field = document.getElementById("q"), hits = document.getElementById("hits"), found = document.getElementById("found")

  function show() {
    const text = field.value.trim(), results = text ? search(text) : []
    hits.replaceChildren(...results.map(({ page, best: [first, ...others] }) => {
      const hit = element("li", "", element("p", `${pages[page][2]} · ${pages[page][1]}`), linkTo(first))
      const words = around(entries[first][4], wordsOf(text))
      if (words) hit.append(element("p", words))
      if (others.length) hit.append(element("ul", "", ...others.map((i) => element("li", "", linkTo(i)))))
      return hit
    }))
    if (!text) found.textContent = ""
    else if (results.length) found.textContent = results.length === 1 ? "1 page" : `${results.length} pages, the best first`
    else found.textContent = "No page has these words. Try fewer, or look through all pages below."
  }

  field.value = new URLSearchParams(location.search).get("q") ?? ""
  field.addEventListener("input", () => {
    history.replaceState(null, "", "?q=" + encodeURIComponent(field.value))
    show()
  })
  field.form.addEventListener("submit", (event) => {
    event.preventDefault()
    show()
  })
  field.focus()
  show()
})()
