#include "cli/sim/cluster_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <initializer_list>
#include <map>

#include "base/str.h"
#include "sim/workload/csv.h"

namespace paceline::cli {
namespace {

using sched::kMilli;
using sched::Resources;

constexpr int64_t kMaxAmount = 1'000'000'000;
constexpr int64_t kMaxNodes = 1'000'000;

// Thrown and caught in this file only, as yaml-cpp's own.
struct Refused {
  int line = 0;
  std::string what;
};

[[noreturn]] void refuse(const YAML::Node& at, const std::string& what) {
  throw Refused{at.Mark().line + 1, what};
}

void check_keys(const YAML::Node& map, std::initializer_list<const char*> known) {
  if (!map.IsMap()) refuse(map, "a map of keys and values is expected");
  for (const auto& entry : map) {
    const std::string key = entry.first.as<std::string>();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (const char* name : known) names += str(names.empty() ? "" : ", ", name);
    refuse(entry.first, str("unknown key '", key, "'; known: ", names));
  }
}

int64_t milli_of(const YAML::Node& node, const char* key) {
  const std::optional<int64_t> value =
      node.IsScalar() ? sim::parse_milli(node.Scalar()) : std::nullopt;
  if (!value || *value < 0 || *value > kMaxAmount * kMilli)
    refuse(node, str(key, " must be a number from 0 to ", kMaxAmount));
  return *value;
}

int64_t whole_of(const YAML::Node& node, const char* key, int64_t low, int64_t high) {
  const std::optional<int64_t> value =
      node.IsScalar() ? sim::parse_milli(node.Scalar()) : std::nullopt;
  if (!value || *value % kMilli != 0 || *value < low * kMilli || *value > high * kMilli)
    refuse(node, str(key, " must be a whole number from ", low, " to ", high));
  return *value / kMilli;
}

// `base` with what the map states.
Resources amounts_of(const YAML::Node& map, Resources base) {
  if (map["gpus"]) base[sched::kGpu] = milli_of(map["gpus"], "gpus");
  if (map["cpus"]) base[sched::kCpu] = milli_of(map["cpus"], "cpus");
  if (map["memory_gib"])
    base[sched::kMemory] = milli_of(map["memory_gib"], "memory_gib") * 1024 / kMilli;
  return base;
}

std::vector<std::string> strings_of(const YAML::Node& list) {
  std::vector<std::string> values;
  if (!list) return values;
  if (!list.IsSequence()) refuse(list, "a list is expected");
  for (const YAML::Node& value : list) values.push_back(value.as<std::string>());
  return values;
}

void add_nodes(const YAML::Node& entry, std::vector<sched::NodeSpec>& nodes) {
  check_keys(entry, {"count", "name", "in", "gpus", "cpus", "memory_gib", "gpu_model", "features"});
  const int64_t count = entry["count"] ? whole_of(entry["count"], "count", 1, kMaxNodes) : 1;
  if (static_cast<int64_t>(nodes.size()) + count > kMaxNodes)
    refuse(entry, str("more than ", kMaxNodes, " nodes"));
  const std::string prefix = entry["name"] ? entry["name"].as<std::string>() : "node";
  if (entry["gpus"]) whole_of(entry["gpus"], "gpus", 0, sched::kMaxGpusPerNode);
  sched::NodeClass kind{.capacity = amounts_of(entry, {}),
                        .features = strings_of(entry["features"])};
  if (entry["gpu_model"]) kind.gpu_model = entry["gpu_model"].as<std::string>();
  const std::vector<std::string> path = strings_of(entry["in"]);
  for (int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<uint32_t>(nodes.size());
    nodes.push_back({.id = sched::NodeId(id), .name = str(prefix, id), .path = path, .kind = kind});
  }
}

std::vector<sched::QueueSpec> queues_of(const YAML::Node& list) {
  std::vector<sched::QueueSpec> queues;
  if (!list) return {sched::QueueSpec{.id = sched::QueueId(0), .name = "default"}};
  if (!list.IsSequence() || list.size() == 0) refuse(list, "queues is no list, or an empty one");
  std::map<std::string, sched::QueueId> ids;
  for (const YAML::Node& entry : list) {
    check_keys(entry, {"name", "parent", "quota", "limit", "weight", "priority"});
    if (!entry["name"]) refuse(entry, "a queue without a name");
    const sched::QueueId id(static_cast<uint32_t>(queues.size()));
    sched::QueueSpec queue{
        .id = id, .name = entry["name"].as<std::string>(), .created = id.value()};
    ids.emplace(queue.name, id);
    for (const char* key : {"quota", "limit"})
      if (entry[key]) check_keys(entry[key], {"gpus", "cpus", "memory_gib"});
    if (entry["quota"]) queue.quota = amounts_of(entry["quota"], queue.quota);
    if (entry["limit"]) queue.limit = amounts_of(entry["limit"], queue.limit);
    if (entry["weight"])
      queue.weight = Resources::all(whole_of(entry["weight"], "weight", 0, sched::kMaxShareWeight));
    if (entry["priority"])
      queue.priority =
          static_cast<int32_t>(whole_of(entry["priority"], "priority", -1'000'000, 1'000'000));
    queues.push_back(std::move(queue));
  }
  for (size_t i = 0; i < queues.size(); ++i) {
    const YAML::Node parent = list[i]["parent"];
    if (!parent) continue;
    const auto found = ids.find(parent.as<std::string>());
    if (found == ids.end())
      refuse(parent, str("no queue is called '", parent.as<std::string>(), "'"));
    queues[i].parent = found->second;
  }
  return queues;
}

Result<ClusterFile> read(const YAML::Node& root) {
  check_keys(root, {"levels", "nodes", "queues"});
  std::vector<sched::NodeSpec> nodes;
  if (!root["nodes"] || !root["nodes"].IsSequence()) refuse(root, "nodes is missing, or no list");
  for (const YAML::Node& entry : root["nodes"]) add_nodes(entry, nodes);
  TRY_ASSIGN(sched::Topology topology,
             sched::Topology::make(strings_of(root["levels"]), std::move(nodes)));
  TRY_ASSIGN(sched::QueueTree queues, sched::QueueTree::make(queues_of(root["queues"])));
  return ClusterFile{std::make_shared<const sched::Topology>(std::move(topology)),
                     std::move(queues)};
}

// What a file says may stand in a message; the message stays one line.
std::string on_one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

Failure failure_at(int line, const std::string& what) {
  return Failure{ErrorCode::InvalidArgument, str("line ", line, ": ", on_one_line(what))};
}

}  // namespace

Result<ClusterFile> parse_cluster_file(const std::string& text) {
  try {
    Result<ClusterFile> cluster = read(YAML::Load(text));
    if (!cluster) return Failure{cluster.error().code, on_one_line(cluster.error().message)};
    return cluster;
  } catch (const Refused& refused) {
    return failure_at(refused.line, refused.what);
  } catch (const YAML::Exception& error) {
    return failure_at(error.mark.line + 1, error.msg);
  }
}

}  // namespace paceline::cli
