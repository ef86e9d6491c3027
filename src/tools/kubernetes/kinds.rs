//! The kinds that the tools know: where they are served and what they are called.

/// A kind as the API server serves it.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    pub kind: &'static str,
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    /// Other names that people use.
    pub short: &'static [&'static str],
}

const fn kind(kind: &'static str, group: &'static str, plural: &'static str, namespaced: bool, short: &'static [&'static str]) -> Kind {
    Kind { kind, group, version: "v1", plural, namespaced, short }
}

/// Secrets are not among them: their values are read by nothing here.
pub static KINDS: &[Kind] = &[
    kind("Pod", "", "pods", true, &["po"]),
    kind("Service", "", "services", true, &["svc"]),
    kind("Event", "", "events", true, &["ev"]),
    kind("ConfigMap", "", "configmaps", true, &["cm"]),
    kind("PersistentVolumeClaim", "", "persistentvolumeclaims", true, &["pvc"]),
    kind("ServiceAccount", "", "serviceaccounts", true, &["sa"]),
    kind("ResourceQuota", "", "resourcequotas", true, &["quota"]),
    kind("LimitRange", "", "limitranges", true, &["limits"]),
    kind("Node", "", "nodes", false, &["no"]),
    kind("Namespace", "", "namespaces", false, &["ns"]),
    kind("PersistentVolume", "", "persistentvolumes", false, &["pv"]),
    kind("EndpointSlice", "discovery.k8s.io", "endpointslices", true, &["endpoints", "ep"]),
    kind("Deployment", "apps", "deployments", true, &["deploy"]),
    kind("ReplicaSet", "apps", "replicasets", true, &["rs"]),
    kind("StatefulSet", "apps", "statefulsets", true, &["sts"]),
    kind("DaemonSet", "apps", "daemonsets", true, &["ds"]),
    kind("ControllerRevision", "apps", "controllerrevisions", true, &[]),
    kind("Job", "batch", "jobs", true, &[]),
    kind("CronJob", "batch", "cronjobs", true, &["cj"]),
    kind("Ingress", "networking.k8s.io", "ingresses", true, &["ing"]),
    kind("NetworkPolicy", "networking.k8s.io", "networkpolicies", true, &["netpol"]),
    Kind { kind: "HorizontalPodAutoscaler", group: "autoscaling", version: "v2", plural: "horizontalpodautoscalers", namespaced: true, short: &["hpa"] },
    kind("PodDisruptionBudget", "policy", "poddisruptionbudgets", true, &["pdb"]),
    Kind { kind: "Runbook", group: "inquest.dev", version: "v1alpha1", plural: "runbooks", namespaced: true, short: &["irb"] },
    kind("StorageClass", "storage.k8s.io", "storageclasses", false, &["sc"]),
    kind("PriorityClass", "scheduling.k8s.io", "priorityclasses", false, &["pc"]),
    kind("ValidatingWebhookConfiguration", "admissionregistration.k8s.io", "validatingwebhookconfigurations", false, &[]),
    kind("MutatingWebhookConfiguration", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", false, &[]),
];

/// By kind, plural, singular or short name, in any case.
#[must_use]
pub fn find(word: &str) -> Option<&'static Kind> {
    let word = word.to_ascii_lowercase();
    KINDS.iter().find(|k| {
        let lower = k.kind.to_ascii_lowercase();
        lower == word || k.plural == word || k.short.contains(&word.as_str())
    })
}

impl Kind {
    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of its list, or of one object of it.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = if self.group.is_empty() { format!("/api/{}", self.version) } else { format!("/apis/{}/{}", self.group, self.version) };
        if let (true, Some(namespace)) = (self.namespaced, namespace) {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push('/');
        path.push_str(self.plural);
        if let Some(name) = name {
            path.push('/');
            path.push_str(name);
        }
        path
    }
}
