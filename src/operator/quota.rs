//! InvestigationQuotas: a run is counted before it begins, by a write that fails where somebody else counted in between; so no two runs
//! take one place. What a run may cost is set aside until it has ended.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    runtime::reflector::Store,
};
use serde_json::json;

use crate::api::{CountedRun, Investigation, InvestigationQuota, InvestigationQuotaSpec, InvestigationQuotaStatus, MicroUsd, Usd};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// Runs that one status holds: more in a day are refused, since they could not be counted.
const MAX_RUNS: usize = 1000;
/// One request to the API server.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why a run waits.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
#[error("the InvestigationQuota {quota} allows {what}; {when}")]
pub struct OverQuota {
    pub quota: String,
    pub what: String,
    pub when: String,
}

#[derive(thiserror::Error, Debug)]
pub enum QuotaError {
    #[error(transparent)]
    Over(#[from] OverQuota),
    /// Somebody else counted in between.
    #[error("the InvestigationQuota {0} was written by another")]
    Conflict(String),
    #[error("the InvestigationQuotas cannot be read or written: {0}")]
    Api(String),
}

fn micros(text: &str) -> u64 {
    Usd::from(text).micros().map_or(u64::MAX, |m| m.0)
}

/// Whether one more run may begin that may cost so much. Pure. `runs` are those of the last day, without it.
fn judge(spec: &InvestigationQuotaSpec, runs: &[CountedRun], cost: MicroUsd, now: Timestamp) -> Result<(), (String, String)> {
    let at = |t: Timestamp| format!("it begins at {} at the earliest", t.strftime("%Y-%m-%dT%H:%M:%SZ"));
    if runs.len() >= MAX_RUNS {
        return Err((format!("{MAX_RUNS} runs a day"), runs.iter().map(|r| r.start_time.0).min().map_or_else(String::new, |t| at(t + DAY))));
    }
    let running = runs.iter().filter(|r| !r.ended).count();
    if let Some(max) = spec.max_running.and_then(|m| usize::try_from(m).ok())
        && running >= max
    {
        return Err((format!("{max} runs at once (maxRunning), and {running} are running"), "it begins when one of them ends".to_owned()));
    }
    if let Some(max) = spec.max_per_hour.and_then(|m| usize::try_from(m).ok()) {
        let mut recent: Vec<Timestamp> = runs.iter().map(|r| r.start_time.0).filter(|t| now.duration_since(*t) < HOUR).collect();
        recent.sort();
        if recent.len() >= max {
            let when = recent.get(recent.len().saturating_sub(max)).filter(|_| max > 0).map_or_else(|| "it never begins".to_owned(), |t| at(*t + HOUR));
            return Err((format!("{max} runs an hour (maxPerHour), and {} began within one", recent.len()), when));
        }
    }
    if let Some(max) = &spec.max_cost_per_day_usd
        && cost.0 > 0
    {
        let most = micros(&max.0);
        let mut spent: u64 = runs.iter().fold(0, |sum, r| sum.saturating_add(micros(&r.cost_usd)));
        if spent.saturating_add(cost.0) > most {
            let what = format!("${} a day (maxCostPerDayUSD): ${} are spent or set aside, and this run may cost ${cost}", max.0, MicroUsd(spent));
            // When enough of the day's cost is a day old.
            let mut oldest: Vec<&CountedRun> = runs.iter().collect();
            oldest.sort_by_key(|r| r.start_time.0);
            let mut when = "it never begins: lower spec.budget.maxCostUSD".to_owned();
            for run in oldest {
                spent = spent.saturating_sub(micros(&run.cost_usd));
                if spent.saturating_add(cost.0) <= most {
                    when = at(run.start_time.0 + DAY);
                    break;
                }
            }
            return Err((what, when));
        }
    }
    Ok(())
}

/// The runs that still count. One whose Investigation is gone or has ended runs no more; what it set aside stays until its day is over.
fn counting(status: &InvestigationQuotaStatus, alive: impl Fn(&str) -> bool, now: Timestamp) -> Vec<CountedRun> {
    let recent = status.runs.iter().filter(|r| now.duration_since(r.start_time.0) < DAY || (!r.ended && alive(&r.uid)));
    recent.map(|r| CountedRun { ended: r.ended || !alive(&r.uid), ..r.clone() }).collect()
}

fn counted(runs: Vec<CountedRun>, now: Timestamp) -> InvestigationQuotaStatus {
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    InvestigationQuotaStatus {
        running: number(runs.iter().filter(|r| !r.ended).count()),
        started_last_hour: number(runs.iter().filter(|r| now.duration_since(r.start_time.0) < HOUR).count()),
        cost_last_day_usd: MicroUsd(runs.iter().fold(0, |sum, r| sum.saturating_add(micros(&r.cost_usd)))).to_string(),
        runs,
    }
}

/// Counts runs in the quotas of their namespaces.
#[derive(Clone)]
pub struct Quotas {
    pub client: Client,
    pub investigations: Store<Investigation>,
    /// What the watch has seen: where there is no quota, nothing is asked of the API server.
    pub known: Store<InvestigationQuota>,
}

impl Quotas {
    fn any_in(&self, namespace: &str) -> bool {
        self.known.state().iter().any(|q| q.namespace().as_deref() == Some(namespace))
    }

    /// Counts a run that may cost so much, before it begins; or one that runs and may cost more now.
    pub async fn admit(&self, object: &Investigation, cost: MicroUsd, now: Timestamp) -> Result<(), QuotaError> {
        let namespace = object.namespace().unwrap_or_default();
        if !self.any_in(&namespace) {
            return Ok(());
        }
        let uid = object.uid().unwrap_or_default();
        let mut changes = Vec::new();
        for quota in self.list(&namespace).await? {
            let all = counting(&quota.status.clone().unwrap_or_default(), |u| self.alive(u), now);
            let (own, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(|r| r.uid == uid);
            if own.iter().any(|r| micros(&r.cost_usd) >= cost.0) {
                continue;
            }
            // One that runs has its place, and asks for money alone.
            let spec = if own.is_empty() { quota.spec.clone() } else { InvestigationQuotaSpec { max_running: None, max_per_hour: None, ..quota.spec.clone() } };
            judge(&spec, &others, cost, now).map_err(|(what, when)| OverQuota { quota: quota.name_any(), what, when })?;
            let start = own.first().map_or(Time(now), |r| r.start_time.clone());
            others.push(CountedRun { uid: uid.clone(), name: object.name_any(), start_time: start, cost_usd: cost.to_string(), ended: false });
            changes.push((quota, others));
        }
        for (quota, runs) in changes {
            self.write(&quota, runs, now).await?;
        }
        Ok(())
    }

    /// What a run may cost by what was set aside for it: more only where the quotas allow it.
    pub async fn bound(&self, object: &Investigation, cost: MicroUsd, now: Timestamp) -> MicroUsd {
        let namespace = object.namespace().unwrap_or_default();
        let uid = object.uid();
        let own = |q: &InvestigationQuota| q.status.iter().flat_map(|s| &s.runs).find(|r| Some(&r.uid) == uid.as_ref()).map(|r| micros(&r.cost_usd));
        let set_aside = self.known.state().iter().filter(|q| q.namespace().as_deref() == Some(&namespace)).filter_map(|q| own(q)).min();
        match set_aside {
            Some(least) if least < cost.0 => match self.admit(object, cost, now).await {
                Ok(()) => cost,
                Err(_over) => MicroUsd(least),
            },
            _ => cost,
        }
    }

    /// Writes what a run did cost.
    pub async fn settle(&self, object: &Investigation, cost: MicroUsd, now: Timestamp) -> Result<(), QuotaError> {
        let namespace = object.namespace().unwrap_or_default();
        if !self.any_in(&namespace) {
            return Ok(());
        }
        let uid = object.uid().unwrap_or_default();
        for quota in self.list(&namespace).await? {
            let mut runs = counting(&quota.status.clone().unwrap_or_default(), |u| self.alive(u) && u != uid, now);
            let Some(own) = runs.iter_mut().find(|r| r.uid == uid) else { continue };
            own.ended = true;
            own.cost_usd = cost.to_string();
            self.write(&quota, runs, now).await?;
        }
        Ok(())
    }

    fn alive(&self, uid: &str) -> bool {
        self.investigations.state().iter().any(|i| i.uid().as_deref() == Some(uid) && !i.status.as_ref().is_some_and(|s| s.phase.is_final()))
    }

    async fn list(&self, namespace: &str) -> Result<Vec<InvestigationQuota>, QuotaError> {
        let api: Api<InvestigationQuota> = Api::namespaced(self.client.clone(), namespace);
        let failed = |e: String| QuotaError::Api(e);
        let listed = tokio::time::timeout(DEADLINE, api.list(&ListParams::default())).await.map_err(|_| failed("no answer".to_owned()))?;
        Ok(listed.map_err(|e| failed(e.to_string()))?.items)
    }

    async fn write(&self, quota: &InvestigationQuota, runs: Vec<CountedRun>, now: Timestamp) -> Result<(), QuotaError> {
        let api: Api<InvestigationQuota> = Api::namespaced(self.client.clone(), &quota.namespace().unwrap_or_default());
        let name = quota.name_any();
        // A merge patch with the version that was read: nothing is counted on top of what was not seen.
        let patch = json!({"metadata": {"resourceVersion": quota.resource_version()}, "status": counted(runs, now)});
        match tokio::time::timeout(DEADLINE, api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(QuotaError::Conflict(name)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
            Ok(Err(error)) => Err(QuotaError::Api(error.to_string())),
            Err(_late) => Err(QuotaError::Api("no answer".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    fn run(uid: &str, minutes: i64, cost: &str, ended: bool) -> CountedRun {
        CountedRun { uid: uid.into(), name: uid.into(), start_time: Time(at(minutes)), cost_usd: cost.into(), ended }
    }

    #[test]
    fn a_run_over_the_quota_is_told_what_it_waits_for_and_until_when() {
        let spec =
            |running, hour, cost: Option<&str>| InvestigationQuotaSpec { max_running: running, max_per_hour: hour, max_cost_per_day_usd: cost.map(Usd::from) };
        let runs = [run("a", 0, "0.30", true), run("b", 10, "0.50", false), run("c", 20, "0.10", true)];
        let now = at(30);
        let refused = |spec, cost| judge(&spec, &runs, MicroUsd(cost), now).unwrap_err();
        assert_eq!(judge(&spec(Some(2), Some(4), Some("1.40")), &runs, MicroUsd(500_000), now), Ok(()));
        assert_eq!(refused(spec(Some(1), None, None), 0), ("1 runs at once (maxRunning), and 1 are running".into(), "it begins when one of them ends".into()));
        let (what, when) = refused(spec(None, Some(3), None), 0);
        assert!(what.contains("3 runs an hour") && when.contains("1970-01-01T01:00:00Z"), "{what} {when}");
        assert!(refused(spec(None, Some(2), None), 0).1.contains("1970-01-01T01:10:00Z"), "two must be older than an hour");
        let (what, when) = refused(spec(None, None, Some("1.00")), 500_000);
        assert!(what.contains("$0.900000 are spent or set aside") && when.contains("1970-01-02T00:10:00Z"), "{what} {when}");
        assert!(refused(spec(None, None, Some("0.40")), 500_000).1.contains("never begins"));
        assert_eq!(judge(&spec(None, None, Some("0")), &runs, MicroUsd(0), now), Ok(()), "the playbooks cost nothing");
        assert!(refused(spec(None, Some(0), None), 0).1.contains("never"));
        let many: Vec<CountedRun> = (0..MAX_RUNS).map(|n| run(&n.to_string(), 0, "0", true)).collect();
        assert!(judge(&spec(None, None, None), &many, MicroUsd(0), now).is_err());
    }

    #[test]
    fn a_deleted_run_still_counts_for_its_day_and_takes_no_place() {
        let status = InvestigationQuotaStatus {
            runs: vec![run("gone", 0, "0.50", false), run("here", 5, "0.50", false), run("old", -24 * 60, "9", true)],
            ..InvestigationQuotaStatus::default()
        };
        let runs = counting(&status, |uid| uid == "here", at(10));
        let now = counted(runs, at(10));
        assert_eq!((now.running, now.started_last_hour, now.cost_last_day_usd.as_str(), now.runs.len()), (1, 2, "1.000000", 2));
    }
}
