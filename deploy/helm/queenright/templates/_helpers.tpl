{{- define "queenright.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "queenright.labels" -}}
app.kubernetes.io/name: queenright
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "queenright.secret" -}}
{{- .Values.existingSecret | default (include "queenright.name" .) -}}
{{- end -}}

{{- define "queenright.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "queenright.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  # Mounted secrets belong to this group: with mode 0440 the program reads them, and nobody else.
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "queenright.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
