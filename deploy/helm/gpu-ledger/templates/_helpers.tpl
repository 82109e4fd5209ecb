{{- /* Labels of an object: the component's name is the only one that selectors use. */ -}}
{{- define "gpu-ledger.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What every pod has in common: where it runs, and as whom. */ -}}
{{- define "gpu-ledger.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* What every container has in common. */ -}}
{{- define "gpu-ledger.container" -}}
image: {{ include "gpu-ledger.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* Pods of one component on different nodes, where there are any. */ -}}
{{- define "gpu-ledger.apart" -}}
affinity:
  podAntiAffinity:
    # Preferred: where one node is left, all replicas run on it.
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {app.kubernetes.io/name: {{ . }}}
{{- end }}

{{- /* A Deployment of the service. Takes root, component, command, grace (seconds), resources;
       replicas (none where an autoscaler sets them), ports, probes, account, clusters ("ro", "rw"),
       archives. */ -}}
{{- define "gpu-ledger.deployment" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" $root.Release.Name .component -}}
{{- $hasAccount := and .account $root.Values.homeCluster -}}
{{- $hasArchives := and .archives $root.Values.archiveClaim -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {app.kubernetes.io/name: {{ $name }}, app.kubernetes.io/part-of: gpu-ledger}
spec:
  {{- if hasKey . "replicas" }}
  replicas: {{ .replicas }}
  {{- end }}
  {{- if .recreate }}
  strategy: {type: Recreate}
  {{- else }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  {{- end }}
  selector:
    matchLabels: {app.kubernetes.io/name: {{ $name }}}
  template:
    metadata:
      labels: {app.kubernetes.io/name: {{ $name }}, app.kubernetes.io/part-of: gpu-ledger}
      annotations:
        # Pods are replaced when the settings change.
        checksum/settings: {{ toYaml $root.Values.settings | sha256sum }}
    spec:
      {{- if $hasAccount }}
      serviceAccountName: {{ $name }}
      {{- end }}
      automountServiceAccountToken: {{ ternary "true" "false" (not (not $hasAccount)) }}
      terminationGracePeriodSeconds: {{ .grace }}
      {{- include "gpu-ledger.pod" $root | nindent 6 }}
      {{- include "gpu-ledger.apart" $name | nindent 6 }}
      containers:
        - name: {{ .component }}
          {{- include "gpu-ledger.container" $root | nindent 10 }}
          command: {{ toYaml .command | nindent 12 }}
          envFrom:
            - configMapRef: {name: {{ $root.Release.Name }}}
            - secretRef: {name: {{ $root.Values.existingSecret }}}
          {{- with .ports }}
          ports: {{ toYaml . | nindent 12 }}
          {{- end }}
          {{- with .probes }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
          resources: {{ toYaml .resources | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- if .clusters }}
            {{- $readOnly := ne .clusters "rw" }}
            {{- if $root.Values.clusterClaim }}
            - {name: clusters, mountPath: /run/clusters, readOnly: {{ $readOnly }}}
            {{- else }}
            {{- range $slug, $secret := $root.Values.clusterSecrets }}
            - {name: cluster-{{ $slug }}, mountPath: /run/clusters/{{ $slug }}, readOnly: true}
            {{- end }}
            {{- end }}
            {{- end }}
            {{- if $hasArchives }}
            - {name: archives, mountPath: {{ required "Set settings.ARCHIVE_DIR, where archiveClaim is mounted" $root.Values.settings.ARCHIVE_DIR }}}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- if .clusters }}
        {{- if $root.Values.clusterClaim }}
        - name: clusters
          persistentVolumeClaim: {claimName: {{ $root.Values.clusterClaim }}}
        {{- else }}
        {{- range $slug, $secret := $root.Values.clusterSecrets }}
        - name: cluster-{{ $slug }}
          secret: {secretName: {{ $secret }}, defaultMode: 0440}
        {{- end }}
        {{- end }}
        {{- end }}
        {{- if $hasArchives }}
        - name: archives
          persistentVolumeClaim: {claimName: {{ $root.Values.archiveClaim }}}
        {{- end }}
{{- end }}

{{- /* A budget by which one pod at a time is evicted. Takes root and component. */ -}}
{{- define "gpu-ledger.budget" -}}
{{- $name := printf "%s-%s" .root.Release.Name .component -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app.kubernetes.io/name: {{ $name }}, app.kubernetes.io/part-of: gpu-ledger}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {app.kubernetes.io/name: {{ $name }}}
{{- end }}

{{- /* Accounts of the service's own components, where this is a cluster that it meters. Takes root,
       components and queue: workers of that queue are among them. */ -}}
{{- define "gpu-ledger.subjects" -}}
{{- $components := .components }}
{{- $queue := .queue }}
{{- range $component, $worker := .root.Values.workers }}
{{- if has $queue $worker.queues }}
{{- $components = append $components $component }}
{{- end }}
{{- end }}
{{- if and .root.Values.service.enabled .root.Values.homeCluster }}
{{- range $components }}
  - kind: ServiceAccount
    name: {{ $.root.Release.Name }}-{{ . }}
    namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end }}
