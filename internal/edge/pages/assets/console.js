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

// The page with a secret is the answer to a form. To load it again would send the form again, and make another secret.
const secret = document.getElementById("secret")
if (secret) history.replaceState(null, "", secret.parentElement.querySelector("a").href)

// A form is sent once by a double click. It can be sent again after a while, and when the browser goes back to it.
const sentTwice = 5000 // ms
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    const now = performance.now()
    if (now - Number(form.dataset.sent ?? -Infinity) < sentTwice) event.preventDefault()
    else form.dataset.sent = now
  })
}
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent
})
