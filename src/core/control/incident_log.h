// IncidentLog: one record per fault, from the first evidence to the commit that ends it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/model/incident.h"

namespace paceline::control {

class IncidentLog {
 public:
  // As an earlier life of the controller has journaled it: the last word counts, and numbers rise.
  void restore(const Incident& incident) {
    next_ = std::max(next_, incident.id + 1);
    if (incident.recovered) {
      close(incident.id);
    } else {
      open_[incident.id] = incident;
    }
  }

  Incident& open(IncidentKind kind, Instant now) {
    const uint32_t id = next_++;
    Incident& incident = open_[id];
    incident.id = id;
    incident.kind = kind;
    incident.detected = now;
    return incident;
  }
  Incident* find(uint32_t id) {
    const auto found = open_.find(id);
    return found == open_.end() ? nullptr : &found->second;
  }
  // `id` is repaired by the epoch `number`: the next commit in it, or in a later one, ends it.
  void await_commit_in(uint32_t id, EpochNumber number) { awaited_[id] = number; }

  // A commit in `epoch`: the incidents that it ends, closed.
  std::vector<Incident> committed(EpochNumber epoch, Instant at) {
    std::vector<Incident> ended;
    std::erase_if(awaited_, [&](const auto& entry) {
      if (entry.second > epoch) return false;
      Incident& incident = open_.at(entry.first);
      incident.recovered = at;
      ended.push_back(incident);
      open_.erase(entry.first);
      return true;
    });
    return ended;
  }
  // It is over, or nothing will be done about it.
  void close(uint32_t id) {
    open_.erase(id);
    awaited_.erase(id);
  }
  bool is_repairing() const { return !awaited_.empty(); }
  const std::map<uint32_t, Incident>& open_incidents() const { return open_; }

 private:
  uint32_t next_ = 1;
  std::map<uint32_t, Incident> open_;
  std::map<uint32_t, EpochNumber> awaited_;
};

}  // namespace paceline::control
