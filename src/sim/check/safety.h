// Safety: the properties of the commit protocol (docs/design/0002), held against what the simulated
// ranks do, after every event.
//
//   S1  no two ranks commit one turn with different sums
//   S2  a committed sum holds each micro-batch exactly once
//   S5  each rank applies the turns in order
//
// A sum is told by the epoch that it was reduced in: two reductions of one turn may differ in bits
// (fast mode), so two ranks must commit a turn from the same one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/hash.h"
#include "core/model/ids.h"

namespace paceline::sim {

class Safety {
 public:
  // `holds_all`: the tag of the sum is that of all micro-batches.
  void committed(RankId rank, Turn turn, EpochNumber sums_of, bool holds_all);
  // A joiner continues behind `committed` turns.
  void starts_at(RankId rank, Turn committed) { next_[rank] = committed; }

  const std::optional<std::string>& violation() const { return violation_; }
  Turn newest() const { return newest_; }
  uint64_t digest() const { return digest_.value(); }

 private:
  void violate(std::string what) {
    if (!violation_) violation_ = std::move(what);
  }

  std::map<Turn, EpochNumber> sums_of_;  // of recent turns
  std::map<RankId, Turn> next_;
  Turn newest_;
  Digest digest_;
  std::optional<std::string> violation_;
};

}  // namespace paceline::sim
