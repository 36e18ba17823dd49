// The search of the documentation. It ranks the entries of docsIndex, and shows the best pages with their best entries.
(() => {
  "use strict"
  const { pages, entries } = globalThis.docsIndex // entries: page, anchor, title, heading, text

  // These words stand in most questions and pages, and say nothing about either.
  const common = new Set(("a an and any are as at be been by can do does element field for from get give given has " +
    "have how i if in into is it its may me member must my of on or our shall should so than that the their them " +
    "then there this to us was we what when where which who why will with you your").split(" "))

  // stem returns what the forms of a word have in common: expire, expires and expired.
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
      add(document, words, weight) {
        for (const word of words) {
          let all = documents.get(word)
          if (!all) documents.set(word, all = new Map())
          all.set(document, (all.get(document) ?? 0) + weight)
        }
      },
    }
  }

  // addTitle adds words that count more the fewer there are.
  function addTitle(index, document, words, weight) {
    index.add(document, words, weight / (1 + Math.log(Math.max(1, words.length))))
  }

  let built // made by the first question
  function build() {
    const parts = newIndex(), wholes = newIndex(), titles = newIndex(), titlesOf = []
    entries.forEach(([page, , title, heading, text], i) => {
      const titleWords = wordsOf(title), textWords = wordsOf(text)
      titlesOf.push(titleWords)
      addTitle(parts, i, titleWords, inTitle)
      addTitle(parts, i, wordsOf(heading), inHeading)
      addTitle(parts, i, wordsOf(pages[page][1]), inPageTitle)
      parts.add(i, textWords, inText)
      wholes.add(page, titleWords, inText)
      wholes.add(page, textWords, inText)
    })
    pages.forEach(([path, title], page) => {
      addTitle(titles, page, wordsOf(title), inTitle)
      titles.add(page, wordsOf(path.replace(".html", "")).filter((word) => word !== "index"), inPageTitle)
    })
    return {
      parts: parts.documents, wholes: wholes.documents, titles: titles.documents, titlesOf,
      vocabulary: [...parts.documents.keys()],
    }
  }

  const beginning = 0.5 // what a word counts that only begins with the word of the question

  // score returns the score of each document that has a word of the question. A weight of saturation counts half.
  function score(question, index, total, saturation) {
    const scores = new Map()
    for (const [word, matches] of question) {
      const best = new Map()
      for (const known of matches) {
        for (const [document, weight] of index.get(known) ?? []) {
          const points = (known === word ? 1 : beginning) * weight / (weight + saturation)
          if (points > (best.get(document) ?? 0)) best.set(document, points)
        }
      }
      const rarity = Math.log(1 + total / (best.size + 1))
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

  // What the words of a whole page, and those of its title, count beside those of its best entry.
  const wholePage = 0.8, pageTitle = 1.2

  // What a heading counts beside a row of a table, and a title whose words are all in the question beside one with
  // others. A title that is the question says what a name is, in the reference and in the pages to look up words and
  // errors. Pages about how the server is made are for few readers.
  const isHeading = 1.15, isAsked = 0.7, isDefinition = 2.2, isForFew = 0.7
  const forFew = /^(?:design\/|goals|conformance)/, definitions = /^(?:reference\/|glossary|error-finder)/

  const mostPages = 12, mostEntries = 4

  // search returns the best pages, each with its best entries.
  function search(text) {
    built ??= build()
    const asksFor = new Set(wordsOf(text))
    const question = [...asksFor].map((word) =>
      [word, word.length < 3 ? [word] : built.vocabulary.filter((known) => known.startsWith(word))])
    const low = text.trim().toLowerCase()
    const byPage = new Map()
    for (const [i, points] of score(question, built.parts, entries.length, 4)) {
      const [page, , title, heading] = entries[i]
      const all = byPage.get(page) ?? []
      const words = built.titlesOf[i]
      const asked = words.length && words.filter((word) => asksFor.has(word)).length / words.length
      const isTitle = title.toLowerCase() === low || asked === 1 && words.length === asksFor.size
      const isDefined = isTitle && definitions.test(pages[page][0])
      all.push([points * (1 + isAsked * asked) * (isDefined ? isDefinition : heading ? 1 : isHeading), i])
      byPage.set(page, all)
    }
    const wholes = score(question, built.wholes, pages.length, 12)
    const titles = score(question, built.titles, pages.length, 3)
    const found = []
    for (const [page, all] of byPage) {
      all.sort((a, b) => b[0] - a[0] || b[1] - a[1])
      const seen = new Set(), best = []
      for (const [, i] of all) {
        if (best.length < mostEntries && !seen.has(entries[i][2])) best.push(i)
        seen.add(entries[i][2])
      }
      const points = all[0][0] + wholePage * (wholes.get(page) ?? 0) + pageTitle * (titles.get(page) ?? 0)
      found.push({ page, points: forFew.test(pages[page][0]) ? points * isForFew : points, best })
    }
    return found.sort((a, b) => b.points - a.points || a.page - b.page).slice(0, mostPages)
  }

  // around returns the part of a text that has a word of the question.
  function around(text, question) {
    const low = text.toLowerCase()
    const places = question.map((word) => low.indexOf(word)).filter((i) => i >= 0)
    const at = Math.max(0, Math.min(...places, low.length) - 60)
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

  const [field, hits, found] = ["q", "hits", "found"].map((id) => document.getElementById(id))

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
    else if (results.length === 1) found.textContent = "1 page"
    else if (results.length) found.textContent = `${results.length} pages, the best first`
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
