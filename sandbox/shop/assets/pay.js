import { authenticate } from 'http://127.0.0.1:8080/threeds.js'
pay.onclick = () => begin().catch((error) => { fault.textContent = error.message })
async function begin() {
  const payment = JSON.stringify(Object.fromEntries(new FormData(form)))
  const answer = await fetch('/pay', { method: 'POST', body: payment })
  if (!answer.ok) throw new Error(await answer.text())
  const { id, url } = await answer.json()
  if (url) await authenticate({ url })
  location.assign('/order?authentication=' + id)
}
