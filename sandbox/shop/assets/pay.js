import { authenticate } from 'http://127.0.0.1:8080/threeds.js'
pay.onclick = async () => {
  const payment = JSON.stringify(Object.fromEntries(new FormData(form)))
  const { id, url } = await (await fetch('/pay', { method: 'POST', body: payment })).json()
  if (url) await authenticate({ url })
  location.assign('/order?authentication=' + id)
}
