{{- define "inquest.image" -}}
{{ .Values.image.repository }}{{ .suffix }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "inquest.labels" -}}
app.kubernetes.io/name: inquest
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What every pod of ours is confined to. */}}
{{- define "inquest.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "inquest.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Chosen by the user, the same for every pod. */}}
{{- define "inquest.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Files that a tool server is given, by name. */}}
{{- define "inquest.toolFiles" -}}
{{- if and (eq .name "runbooks") .server.files }}
{{- toYaml .server.files }}
{{- else if and (eq .name "observability") .server.prometheus.queries }}
{{- toYaml (dict "promql.yaml" .server.prometheus.queries) }}
{{- else if and (eq .name "metrics") .server.catalogue }}
{{- toYaml (dict "catalogue.yaml" .server.catalogue) }}
{{- end }}
{{- end }}

{{/* Settings of one tool server, as variables. */}}
{{- define "inquest.toolEnv" -}}
{{- if eq .name "runbooks" }}
- {name: INQUEST_SHARED_NAMESPACE, value: {{ .namespace }}}
{{- if .server.files }}
- {name: INQUEST_RUNBOOKS, value: /etc/inquest/runbooks}
{{- end }}
{{- else if eq .name "observability" }}
{{- with .server.prometheus }}
{{- if .url }}
- {name: INQUEST_PROMETHEUS_URL, value: {{ .url | quote }}}
{{- end }}
{{- if .queries }}
- {name: INQUEST_PROMETHEUS_QUERIES, value: /etc/inquest/observability/promql.yaml}
{{- end }}
{{- end }}
{{- else if eq .name "metrics" }}
- {name: INQUEST_METRICS_MOCK_BACKEND, value: {{ .server.mockBackend }}}
{{- if .server.catalogue }}
- {name: INQUEST_METRICS_CATALOGUE, value: /etc/inquest/metrics/catalogue.yaml}
{{- end }}
{{- with .server.databaseUrl }}
{{- if .secretName }}
- {name: INQUEST_METRICS_DATABASE_URL, valueFrom: {secretKeyRef: {name: {{ .secretName }}, key: {{ .key }}}}}
{{- end }}
{{- end }}
{{- with .server.backendUrl }}
- {name: INQUEST_METRICS_BACKEND_URL, value: {{ . | quote }}}
{{- end }}
{{- else if and (eq .name "workspace") .server.perTenant }}
- {name: INQUEST_WORKSPACE_PER_TENANT, value: "true"}
{{- end }}
{{- end }}

{{- define "inquest.operatorUrl" -}}
http://inquest-operator.{{ .Release.Namespace }}.svc:8080
{{- end }}
