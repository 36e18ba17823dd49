// The ending, in words for the shopper and facts for the developer.
const $ = (id) => document.getElementById(id);

export function showResult(ending) {
  $("result").dataset.good = String(ending.good);
  $("result-word").textContent = ending.word;
  $("result-title").textContent = ending.title;
  $("result-text").textContent = ending.text;
  $("result-info").textContent = ending.info ? `Your bank says: ${ending.info}` : "";
  $("result-info").hidden = !ending.info;
  $("result-status").textContent = ending.transStatus || "none";
  $("result-eci").textContent = ending.eci || "none";
  $("result-value").textContent = ending.hasValue ? "present" : "none";
  $("result-reason").textContent = ending.reason || "";
  $("reason-row").hidden = !ending.reason;
  const { erro } = ending;
  $("result-error").textContent = erro ? `${erro.code} from ${erro.component}: ${[erro.description, erro.detail].filter(Boolean).join(" · ")}` : "";
  $("erro-row").hidden = !erro;
  $("result-title").focus();
  $("result").scrollIntoView({ block: "nearest" });
}
