// Search: breadth first through every state that a World can reach, so that the first violation
// found has a shortest trace.
//
// L1 has two halves: a state in which only faults can still happen must be a good end
// (World::check_final), and the fault-free steps must form no cycle; then every run without further
// faults arrives at such a state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "intern.h"
#include "world.h"

namespace paceline::explore {

struct Result {
  enum class Verdict : uint8_t { Holds, Violated, OutOfLimit };
  Verdict verdict = Verdict::Holds;
  uint64_t states = 0;
  uint64_t transitions = 0;
  uint64_t finals = 0;
  uint64_t stopped = 0;  // finals in which all ranks of an epoch in force have ended
  uint32_t depth = 0;
  std::string violation;
};

class Search {
 public:
  explicit Search(const Config& config) : config_(config), world_(config) {}

  Result run();
  // How the state and the action that are being looked at were reached: one line per action.
  // Also for a CHECK that fails in a core: the last action is named, not applied.
  std::string trace();
  const World& world() const { return world_; }

 private:
  struct Waiting {
    uint32_t id;
    State state;
  };
  uint64_t hash_of(const State& state) const;
  uint32_t add(const State& state, uint32_t parent, uint8_t action, std::vector<Waiting>& next);
  void expand(const Waiting& waiting, std::vector<Waiting>& next);
  bool has_fault_free_cycle() const;

  Config config_;
  World world_;
  Result result_;
  IdMap ids_;
  std::vector<uint32_t> parents_;
  std::vector<uint8_t> actions_;
  // Fault-free edges, by the state that they leave; states are expanded in the order of their
  // numbers.
  std::vector<uint8_t> edge_counts_;
  std::vector<uint32_t> edges_;
  // What is being looked at.
  uint32_t current_ = 0;
  State current_state_;
  Action current_action_{};
  bool is_in_action_ = false;
};

}  // namespace paceline::explore
