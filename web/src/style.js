export const css = `
:host{all:initial;--accent:#1b5e55;--on:#fff;--ink:#1c2422;--muted:#59625f;--surface:#fff;--line:#e1dcd1;--edge:#857f72;--note:#e3efec;
color:var(--ink);color-scheme:light dark;font:16px/1.45 -apple-system,BlinkMacSystemFont,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans",sans-serif}
@media(prefers-color-scheme:dark){:host{--accent:#86cdbf;--on:#0c201c;--ink:#e9eeeb;--muted:#a5b0ac;--surface:#191f1d;--line:#2d3734;--edge:#75837e;--note:#1d322e}}
*{box-sizing:border-box}
.box{background:var(--surface);color:var(--ink);border:1px solid var(--line);border-radius:16px;padding:0;display:flex;flex-direction:column;
width:fit-content;min-width:min(400px,100%);max-width:100%;max-height:100%;overflow:auto}
dialog.box{box-shadow:0 8px 28px rgb(28 36 34/.2);margin:auto}
dialog:not([open]){display:none}
dialog::backdrop{background:rgb(17 21 20/.55)}
.full{width:100%;height:100%;max-width:none;max-height:none;border:0;border-radius:0}
section.full{height:auto;min-height:600px}
.head,.foot{display:flex;align-items:center;gap:12px;padding:8px 8px 8px 16px;justify-content:space-between}
[dir=rtl] .head{padding:8px 16px 8px 8px}
h1,h2,h3,p{margin:0;overflow-wrap:anywhere}
.head button{flex:none;max-width:50%}
h2,h3{font-size:17px;font-weight:650}
h2:empty,h3:empty{display:none}
#t{font-size:15px;font-weight:600}
#t:focus{outline:0}
p,.foot{color:var(--muted);font-size:14px}
.foot{padding:8px 16px;font-size:13px;border-top:1px solid var(--line);flex-wrap:wrap}
.said{display:grid;align-items:center;flex:1 1 128px;contain:inline-size}
.said>*{grid-area:1/1}
.note{background:var(--note);color:var(--ink);border-radius:10px;padding:12px;white-space:pre-wrap;font-size:15px}
.body{display:flex;flex-direction:column;flex:1 0 auto;position:relative}
.panel{display:flex;flex-direction:column;justify-content:center;gap:12px;padding:24px;flex:1;min-height:300px;max-width:560px;margin:0 auto;width:100%}
.mid{text-align:center;align-items:center}
button{font-family:inherit;font-size:15px;font-weight:600;line-height:1.3;color:inherit;background:none;border:1px solid var(--edge);border-radius:10px;padding:8px 16px;
min-height:44px;cursor:pointer;max-width:100%;overflow-wrap:anywhere}
button.quiet{border-color:transparent;color:var(--accent)}
button.main{background:var(--main,var(--accent));border-color:var(--main,var(--accent));color:var(--on)}
button:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.spin{width:36px;height:36px;border-radius:50%;border:4px solid var(--line);border-top-color:var(--accent);animation:t 1s linear infinite}
@keyframes t{to{transform:rotate(1turn)}}
@media(prefers-reduced-motion:reduce){.spin{animation:none;border-style:dotted}}
iframe{border:0;display:block;background:#fff;color-scheme:light}
iframe[data-threeds=method]{visibility:hidden;position:absolute;width:1px;height:1px;left:0;top:0}
.unseen{visibility:hidden}
.way{position:absolute;inset:0;min-height:0;overflow:auto;justify-content:safe center}
.full iframe[data-threeds=challenge]{flex:1;width:100%;min-height:400px}
[hidden]{display:none!important}
`
