#include "search.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

namespace paceline::explore {

Result Search::run() {
  std::vector<Waiting> now, next;
  try {
    add(world_.initial(), 0, 0, now);
    for (; !now.empty() && result_.verdict == Result::Verdict::Holds; ++result_.depth) {
      next.clear();
      for (const Waiting& waiting : now) expand(waiting, next);
      now.swap(next);
      if (ids_.size() > config_.limit) result_.verdict = Result::Verdict::OutOfLimit;
    }
    if (result_.verdict == Result::Verdict::Holds && has_fault_free_cycle()) {
      is_in_action_ = false;
      current_ = 0;
      throw Violation{"L1 a fault-free cycle"};
    }
  } catch (const Violation& violation) {
    result_.verdict = Result::Verdict::Violated;
    result_.violation = violation.what;
  }
  result_.states = ids_.size();
  return result_;
}

uint32_t Search::add(const State& state, uint32_t parent, uint8_t action,
                     std::vector<Waiting>& next) {
  const auto [id, is_new] = ids_.insert(hash_of(state), static_cast<uint32_t>(parents_.size()));
  if (!is_new) return id;
  parents_.push_back(parent);
  actions_.push_back(action);
  next.push_back({id, state});
  return id;
}

void Search::expand(const Waiting& waiting, std::vector<Waiting>& next) {
  current_ = waiting.id;
  current_state_ = waiting.state;
  const std::vector<Action> actions = world_.actions(waiting.state);
  CHECK(actions.size() < 256 && edge_counts_.size() == waiting.id);
  uint8_t fault_free = 0;
  for (size_t i = 0; i < actions.size(); ++i) {
    current_action_ = actions[i];
    is_in_action_ = true;
    const State state = world_.apply(waiting.state, actions[i]);
    is_in_action_ = false;
    ++result_.transitions;
    const uint32_t id = add(state, waiting.id, static_cast<uint8_t>(i), next);
    if (is_fault(actions[i].kind)) continue;
    edges_.push_back(id);
    ++fault_free;
  }
  edge_counts_.push_back(fault_free);
  if (fault_free > 0) return;
  ++result_.finals;
  result_.stopped += world_.has_stopped(waiting.state);
  world_.check_final(waiting.state);
}

std::string Search::trace() {
  std::vector<uint8_t> path;
  for (uint32_t id = current_; id != 0; id = parents_[id]) path.push_back(actions_[id]);
  std::reverse(path.begin(), path.end());
  std::string text;
  State state = world_.initial();
  for (const uint8_t index : path) {
    const Action action = world_.actions(state)[index];
    text += "    " + world_.describe(state, action) + "\n";
    state = world_.apply(state, action);
  }
  if (is_in_action_) text += "    " + world_.describe(current_state_, current_action_) + "\n";
  return text;
}

// Kahn 1962: what cannot be removed by taking away, again and again, states that nothing leads to
// is a cycle.
bool Search::has_fault_free_cycle() const {
  std::vector<uint32_t> incoming(edge_counts_.size());
  for (const uint32_t to : edges_) ++incoming[to];
  std::vector<uint64_t> first(edge_counts_.size());
  uint64_t sum = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] = sum;
    sum += edge_counts_[i];
  }
  std::vector<uint32_t> ready;
  for (size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i] == 0) ready.push_back(static_cast<uint32_t>(i));
  size_t removed = 0;
  while (!ready.empty()) {
    const uint32_t id = ready.back();
    ready.pop_back();
    ++removed;
    for (uint64_t e = first[id]; e < first[id] + edge_counts_[id]; ++e)
      if (--incoming[edges_[e]] == 0) ready.push_back(edges_[e]);
  }
  return removed != edge_counts_.size();
}

uint64_t Search::hash_of(const State& state) const {
  uint64_t words[sizeof(State) / 8 + 1] = {};
  std::memcpy(words, &state, sizeof state);
  uint64_t hash = 0x9E3779B97F4A7C15ull;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDull;
    hash ^= hash >> 32;
  }
  return mix64(hash);
}

}  // namespace paceline::explore
