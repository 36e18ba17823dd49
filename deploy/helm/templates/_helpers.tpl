{{/* The name of everything: that of the release, and of the chart if the release has another one. */}}
{{- define "threeds.name" -}}
{{- if contains "threeds" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-threeds" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{/* The labels by which Services and policies find the nodes. */}}
{{- define "threeds.labels" -}}
{app.kubernetes.io/name: threeds, app.kubernetes.io/instance: {{ .Release.Name }}}
{{- end }}

{{- define "threeds.image" -}}
{{- $i := .Values.image -}}
{{- if $i.digest }}{{ $i.repository }}@{{ $i.digest }}{{ else }}{{ $i.repository }}:{{ $i.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* The configuration as values. */}}
{{- define "threeds.config" -}}
{{- if not .Values.config }}{{ fail "config: want the text of threeds.yaml, such as --set-file config=threeds.yaml" }}{{ end -}}
{{- $c := fromYaml .Values.config -}}
{{- if hasKey $c "Error" }}{{ fail (printf "config: no YAML: %s" $c.Error) }}{{ end -}}
{{- range $name := list "api" "results" "console" }}
{{- $listen := dig $name "listen" "" $c -}}
{{- if not (regexMatch "^(0\\.0\\.0\\.0|\\[::\\])?:[0-9]+$" $listen) }}{{ fail (printf "config: %s.listen: want all addresses and a port, such as \":8080\": others have to reach the Pod" $name) }}{{ end -}}
{{- end -}}
{{- toYaml $c -}}
{{- end }}

{{/* The ports of the container by name, in order. */}}
{{- define "threeds.ports" -}}
{{- $c := include "threeds.config" . | fromYaml -}}
{{- range list (list "api" "api" "listen") (list "results" "results" "listen") (list "browser" "browser" "listen") (list "console" "console" "listen") (list "metrics" "console" "metrics_listen") }}
{{- $listen := dig (index . 1) (index . 2) "" $c -}}
{{- if $listen }}
- {name: {{ index . 0 }}, containerPort: {{ regexFind "[0-9]+$" $listen }}}
{{- end }}
{{- end }}
{{- end }}

{{/* "postgres" or "files". */}}
{{- define "threeds.store" -}}
{{- $url := dig "store" "url" "" (include "threeds.config" . | fromYaml) -}}
{{- if regexMatch "^postgres(ql)?://" $url -}}
postgres
{{- else if hasPrefix "file:/var/lib/threeds/" $url -}}
{{- if gt (int .Values.replicas) 1 }}{{ fail "replicas: want 1 with a store in files: more than one need PostgreSQL (store.url)" }}{{ end -}}
files
{{- else -}}
{{ fail "config: store.url: want postgres://…, or a directory of the volume, such as file:/var/lib/threeds/data" }}
{{- end -}}
{{- end }}

{{/* The seconds of a duration such as 20s or 1m30s. */}}
{{- define "threeds.seconds" -}}
{{- if not (regexMatch "^([0-9]+[hms])+$" .) }}{{ fail (printf "config: timeouts: %q: want whole seconds, such as 20s" .) }}{{ end -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+[hms]" . -1 -}}
{{- $sum = add $sum (mul (regexFind "[0-9]+" .) (get (dict "h" 3600 "m" 60 "s" 1) (regexFind "[hms]" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end }}

{{/* How long a node may take to stop: lame_duck and shutdown, and some more. */}}
{{- define "threeds.grace" -}}
{{- $t := dig "timeouts" dict (include "threeds.config" . | fromYaml) -}}
{{- $lame := include "threeds.seconds" ($t.lame_duck | default "0s") | int -}}
{{- if lt $lame 10 }}{{ fail "config: timeouts.lame_duck: want 10s or more: it takes that long until all of the cluster know that a Pod is to go" }}{{ end -}}
{{- add $lame (include "threeds.seconds" ($t.shutdown | default "15s") | int) 10 -}}
{{- end }}

{{/* Four fifths of the memory limit. */}}
{{- define "threeds.memory" -}}
{{- $limit := toString (dig "limits" "memory" "" .Values.resources) -}}
{{- if not (regexMatch "^[0-9]+[MG]i$" $limit) }}{{ fail "resources.limits.memory: want a number of Mi or Gi, such as 1Gi" }}{{ end -}}
{{- $mib := mul (regexFind "[0-9]+" $limit) (ternary 1024 1 (hasSuffix "Gi" $limit)) -}}
{{- div (mul $mib 4) 5 }}MiB
{{- end }}

{{/* Who a Pod runs as. */}}
{{- define "threeds.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* What a container may do. */}}
{{- define "threeds.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Configuration and secrets. Whole directories: a file that is mounted by subPath never changes. */}}
{{- define "threeds.mounts" -}}
- {name: config, mountPath: /etc/threeds/config, readOnly: true}
- {name: secret, mountPath: /etc/threeds/secret, readOnly: true}
{{- range .Values.extraSecrets }}
- {name: secret-{{ .path }}, mountPath: /etc/threeds/secrets/{{ .path }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "threeds.volumes" -}}
- name: config
  configMap: {name: {{ include "threeds.name" . }}}
- name: secret
  secret: {secretName: {{ .Values.secret | default (include "threeds.name" .) }}, defaultMode: 0440}
{{- range .Values.extraSecrets }}
- name: secret-{{ .path }}
  secret: {secretName: {{ .name }}, defaultMode: 0440}
{{- end }}
{{- end }}
