// The forms that send a request to the sandbox which serves this page. The API key stays in its field: it is stored
// nowhere, and it is sent to this origin alone.
(() => {
  "use strict"
  const access = document.getElementById("access")
  const forms = [...document.querySelectorAll("form.try")]

  // headersOf returns the headers of a request. The key goes where the operation wants it.
  function headersOf(form) {
    const key = access.elements.key.value.trim()
    const headers = new Headers()
    if (form.dataset.auth === "basic") headers.set("Authorization", "Basic " + btoa(key + ":"))
    else if (form.dataset.auth === "bearer") headers.set("Authorization", "Bearer " + key)
    else headers.set("APIKey", key)
    for (const input of form.querySelectorAll('[data-in="header"]')) {
      if (input.value) headers.set(input.name, input.value)
    }
    return headers
  }

  // addressOf returns the path of a request, with its query.
  function addressOf(form) {
    let path = form.dataset.path
    const query = new URLSearchParams()
    for (const input of form.querySelectorAll("[data-in]")) {
      if (input.dataset.in === "path") path = path.replace(`{${input.name}}`, encodeURIComponent(input.value))
      else if (input.dataset.in === "query" && input.value) query.set(input.name, input.value)
    }
    return path + (query.size ? "?" + query : "")
  }

  function examplesOf(form) {
    return [...form.closest(".operation").querySelectorAll("[data-example]")]
  }

  // fill puts an example into the body of a form.
  function fill(form) {
    const { body, example } = form.elements
    if (!body) return
    body.value = examplesOf(form)[example?.selectedIndex ?? 0].textContent
    body.dataset.edited = ""
  }

  // offer puts the id of an answer where the other operations want one, unless the reader has changed the field.
  function offer(id) {
    for (const form of forms) {
      const at = form.querySelector('[data-in="path"][name="id"]'), body = form.elements.body
      if (at && !at.dataset.edited && /^\/(?:authentications|delegate_authentication)\//.test(form.dataset.path)) at.value = id
      if (body && !body.dataset.edited) {
        body.value = body.value.replace(/("threeDSServerTransID": ")[0-9a-f-]{36}"/, (_, before) => before + id + '"')
      }
    }
  }

  function show(form, status, headers, body) {
    form.querySelector(".status").textContent = status
    form.querySelector(".answer").hidden = !headers
    form.querySelector(".headers").textContent = headers
    form.querySelector(".body").textContent = body || "There is none."
  }

  async function send(form) {
    const options = { method: form.dataset.method, headers: headersOf(form), credentials: "omit", redirect: "manual" }
    if (form.elements.body) {
      options.headers.set("Content-Type", "application/json")
      options.body = form.elements.body.value
    }
    const begin = performance.now()
    const answer = await fetch(addressOf(form), options)
    let text = await answer.text(), message
    const status = `${answer.status} ${answer.statusText}, ${Math.round(performance.now() - begin)} ms`
    try {
      message = JSON.parse(text)
      text = JSON.stringify(message, null, 2)
    } catch {
      // what is not JSON is shown as it came
    }
    show(form, status, [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n"), text)
    const id = message?.threeDSServerTransID ?? message?.authentication_session_id ?? message?.id
    if (answer.ok && /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id)) offer(id)
  }

  for (const form of forms) {
    fill(form)
    form.elements.example?.addEventListener("change", () => fill(form))
    form.addEventListener("input", ({ target }) => { target.dataset.edited = "1" })
    form.addEventListener("submit", async (event) => {
      event.preventDefault()
      const button = form.querySelector("button")
      button.setAttribute("aria-disabled", "true")
      show(form, "Waiting for the answer.", "", "")
      try {
        await send(form)
      } catch (error) {
        show(form, `No answer came (${error.message}). Is the sandbox still running?`, "", "")
      }
      button.removeAttribute("aria-disabled")
    })
    form.hidden = false
  }
  access.addEventListener("submit", (event) => event.preventDefault())
  access.hidden = false
  for (const note of document.querySelectorAll(".noscript")) note.hidden = true
})()
