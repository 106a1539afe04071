#include "core/sched/job.h"

#include <algorithm>

#include "base/str.h"

namespace paceline::sched {
namespace {

Failure refused(const JobSpec& job, const std::string& why) {
  return Failure{ErrorCode::InvalidArgument, str("job ", job.name, ": ", why)};
}

Status check_shape(const JobSpec& job, const PodShape& shape) {
  for (size_t i = 0; i < kMaxResources; ++i)
    if (shape.amount[i] < 0 || shape.amount[i] >= kUnlimited)
      return refused(job, "an amount is negative or out of range");
  const int64_t gpu = shape.amount[kGpu];
  if (shape.gpu_count == 0 ? gpu != 0 : gpu <= 0)
    return refused(job, str(gpu, " thousandths of ", shape.gpu_count, " GPUs"));
  if (gpu > kMilli * shape.gpu_count)
    return refused(job, str(gpu, " thousandths are more than ", shape.gpu_count, " GPUs"));
  if (shape.gpu_count > 1 && gpu != kMilli * shape.gpu_count)
    return refused(job, str("a fraction of ", shape.gpu_count, " GPUs; only one GPU is divided"));
  return {};
}

Status check_closeness(const JobSpec& job, const Closeness& closeness, const Topology& topology) {
  for (const std::optional<Level>& level : {closeness.required, closeness.preferred})
    if (level && *level > topology.node_level()) return refused(job, str("no level ", *level));
  if (closeness.required && closeness.preferred && *closeness.preferred < *closeness.required)
    return refused(
        job, str("prefers one ", topology.level_name(*closeness.preferred), " but requires one ",
                 topology.level_name(*closeness.required), ", which is inside it"));
  return {};
}

}  // namespace

bool PodShape::matches(const NodeClass& kind) const {
  const auto has = [&kind](const std::string& feature) {
    return std::binary_search(kind.features.begin(), kind.features.end(), feature);
  };
  if (!gpu_models.empty() &&
      std::find(gpu_models.begin(), gpu_models.end(), kind.gpu_model) == gpu_models.end())
    return false;
  return std::all_of(features.begin(), features.end(), has) &&
         std::none_of(excluded_features.begin(), excluded_features.end(), has);
}

Resources JobShape::total() const {
  Resources sum;
  for (const PodGroup& group : groups) sum += group.shape.amount * group.pods;
  return sum;
}

Status check_job(const JobSpec& job, const Topology& topology) {
  uint64_t pods = 0;
  for (const PodGroup& group : job.shape.groups) {
    if (group.pods == 0) return refused(job, str("group ", group.name, " has no pods"));
    pods += group.pods;
    TRY(check_shape(job, group.shape));
    TRY(check_closeness(job, group.closeness, topology));
  }
  if (pods == 0 || pods > kMaxPods)
    return refused(job, str(pods, " pods, 1 to ", kMaxPods, " are possible"));
  if (job.shape.groups.size() > 1 && job.shape.closeness.required == topology.node_level())
    return refused(job, "several groups inside one node are not in this version; use one group");
  return check_closeness(job, job.shape.closeness, topology);
}

}  // namespace paceline::sched
