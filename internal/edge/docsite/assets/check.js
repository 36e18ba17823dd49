// The form that checks a message in this page. The checker is WebAssembly: the first check loads it. The text is sent
// nowhere, and kept nowhere.
(() => {
  "use strict"
  const form = document.getElementById("checker")
  let loading // the promise of the function that judges a text

  function loadScript(address) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script")
      script.src = address
      script.onload = resolve
      script.onerror = () => reject(new Error("its script cannot be loaded"))
      document.head.append(script)
    })
  }

  async function load() {
    await loadScript(form.dataset.start)
    const answer = await fetch(form.dataset.program)
    if (!answer.ok) throw new Error(`status ${answer.status}`)
    let program = await answer.arrayBuffer()
    const isCompressed = new Uint8Array(program)[0] === 0x1f // some servers unpack the file on its way
    if (isCompressed) {
      const unpacked = new Blob([program]).stream().pipeThrough(new DecompressionStream("gzip"))
      program = await new Response(unpacked).arrayBuffer()
    }
    const go = new globalThis.Go()
    const { instance } = await WebAssembly.instantiate(program, go.importObject)
    go.run(instance) // it does not end
    return globalThis.threedsChecker
  }

  function show(status, findings, body) {
    form.querySelector(".status").textContent = status
    form.querySelector(".answer").hidden = !findings
    form.querySelector(".findings").replaceChildren(...(findings ?? []).map((line) => {
      const item = document.createElement("li")
      item.textContent = line
      return item
    }))
    form.querySelector(".body").textContent = body ?? ""
    form.querySelector(".body").hidden = !body
  }

  async function check() {
    const { text, command, scheme } = form.elements
    if (!loading) show("The checker is loading.")
    try {
      loading ??= load()
      const judge = await loading
      const { status, summary, findings, stdout } = judge(command.value, text.value, scheme.value, Date.now())
      let verdict = command.value === "check" ? "Nothing is wrong with it." : "/auth would take it."
      if (status === 1) verdict = `It has ${summary}.`
      if (status === 2) verdict = `It cannot be read: ${summary}.`
      show(verdict, findings, stdout)
    } catch (err) {
      loading = undefined
      const why = location.protocol === "file:" ? "a page on a disk may not load it; threeds docs serves this page" : err.message
      show(`The checker does not run: ${why}.`)
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault()
    check()
  })
  form.hidden = false
  form.parentElement.querySelector(".noscript").hidden = true
})()
