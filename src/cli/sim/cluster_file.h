// The cluster file: nodes, their topology, and queues, in YAML.
//
//   levels: [leaf, rack]          names of the levels between cluster and node, coarsest first
//   nodes:
//     - count: 16                 so many alike; default 1
//       name: dgx                 prefix of their names; default node
//       in: [leaf0, rack0]        one domain per level
//       gpus: 8                   whole; cpus and memory_gib likewise
//       gpu_model: H100
//       features: [infiniband]
//   queues:                       none: one queue that takes every job
//     - name: research
//       parent: company
//       quota: {gpus: 8}          also cpus, memory_gib; default 0
//       limit: {gpus: 16}         default: none
//       weight: 2                 of what is left after quotas; default 1
//       priority: 1
//
// Unknown keys are refused, with the line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/sched/queue_tree.h"
#include "core/sched/topology.h"

namespace paceline::cli {

struct ClusterFile {
  std::shared_ptr<const sched::Topology> topology;
  sched::QueueTree queues;
};

Result<ClusterFile> parse_cluster_file(const std::string& text);

}  // namespace paceline::cli
