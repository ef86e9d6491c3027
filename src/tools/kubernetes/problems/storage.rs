//! PersistentVolumeClaims.

use serde_json::Value;

use super::{Problem, SETTLE};
use crate::tools::kubernetes::{json, world::World};

pub fn find(world: &World, out: &mut Vec<Problem>) {
    for claim in world.all("PersistentVolumeClaim") {
        if let Some(deleted) = json::time(claim, "/metadata/deletionTimestamp") {
            if world.now.duration_since(deleted) > SETTLE {
                let holders: Vec<&str> = json::list(claim, "/metadata/finalizers").iter().filter_map(Value::as_str).collect();
                out.push(
                    Problem::new(
                        world,
                        claim,
                        "PersistentVolumeClaim",
                        "status",
                        "TerminationPending",
                        format!("deletion was asked for and is held up by {}", holders.join(", ")),
                    )
                    .at(Some(deleted), None),
                );
            }
            continue;
        }
        match json::text(claim, "/status/phase") {
            "Bound" => {}
            phase => {
                let class = claim.pointer("/spec/storageClassName").and_then(Value::as_str);
                let created = json::time(claim, "/metadata/creationTimestamp");
                out.push(
                    Problem::new(
                        world,
                        claim,
                        "PersistentVolumeClaim",
                        "status",
                        if phase == "Lost" { "ClaimLost" } else { "ClaimPending" },
                        storage_class(world, class),
                    )
                    .at(created, None),
                );
            }
        }
    }
}

fn storage_class(world: &World, class: Option<&str>) -> String {
    match class {
        None => "the claim is not bound; it names no storageClassName and there is no default one".to_owned(),
        Some("") => "the claim is not bound; its storageClassName is empty, so only a PersistentVolume made by hand can satisfy it".to_owned(),
        Some(class) if world.saw_all("StorageClass") => match world.find("StorageClass", class) {
            None => format!("the claim is not bound; its StorageClass {class} does not exist"),
            Some(found) => {
                let mode = json::text(found, "/volumeBindingMode");
                format!("the claim is not bound; StorageClass {class} has provisioner {} and volumeBindingMode {mode}", json::text(found, "/provisioner"))
            }
        },
        Some(class) => format!("the claim is not bound; its StorageClass is {class}"),
    }
}
