// PathLedger: which pairs of hosts have lost connections though both live, and who is left out for
// it.
//
// The first loss of a path is repaired by a new epoch with the same members. A path that is lost
// again before anybody has committed in that epoch is dead, and one of its two hosts is left out:
// the one with more lost paths, then the one that was left out before, then the one with fewer
// members, then the higher id. It is kept out for a while, twice as long with each time, so that a
// cut that stays costs less and less; then it may try again, since nobody else can tell whether the
// path is back.
//
// Who is kept out, and for how long, is journaled; how much of it was over is not known to the next
// life of the controller, for which it begins anew. Losses are counted anew, too.
//
// Pure. A host that reaches itself no more is a pair of equal ids.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/time.h"
#include "core/model/ids.h"

namespace paceline::control {

class PathLedger {
 public:
  using Path = std::pair<HostId, HostId>;  // lower id first
  static constexpr uint32_t kDeadAfter = 2;
  static constexpr Duration kFirstPause = Duration::seconds(10);
  static constexpr Duration kLongestPause = Duration::seconds(640);

  static Path between(HostId a, HostId b) { return {std::min(a, b), std::max(a, b)}; }

  // A connection between two live ranks was lost in `epoch`. Once for each path and epoch.
  void lost(Path path, EpochNumber epoch) {
    Loss& loss = losses_[path];
    if (loss.count > 0 && loss.newest == epoch) return;
    ++loss.count;
    loss.newest = epoch;
  }
  // A commit in `epoch`: all its members reach each other, as far as they need to.
  void committed_in(EpochNumber epoch) {
    std::erase_if(losses_, [epoch](const auto& entry) { return entry.second.newest < epoch; });
  }
  std::optional<Path> dead_path() const {
    for (const auto& [path, loss] : losses_)
      if (loss.count >= kDeadAfter) return path;
    return std::nullopt;
  }

  // Which of the two to leave out. `members` of each host in the epoch; absent: none.
  HostId choose(Path path, const std::map<HostId, uint32_t>& members) const {
    const auto key = [&](HostId host) {
      const auto count = members.find(host);
      return std::tuple(lost_paths_of(host), kept_out_.contains(host) ? 1 : 0,
                        -int64_t{count == members.end() ? 0 : count->second}, host);
    };
    return key(path.first) > key(path.second) ? path.first : path.second;
  }
  uint32_t lost_paths_of(HostId host) const {
    return static_cast<uint32_t>(
        std::count_if(losses_.begin(), losses_.end(), [host](const auto& entry) {
          return entry.first.first == host || entry.first.second == host;
        }));
  }

  // Its paths are forgotten: nobody uses them now.
  void leave_out(HostId host, Instant now) {
    std::erase_if(losses_, [host](const auto& entry) {
      return entry.first.first == host || entry.first.second == host;
    });
    KeptOut& kept = kept_out_[host];
    kept.pause = kept.pause == Duration() ? kFirstPause : std::min(kept.pause * 2, kLongestPause);
    kept.until = now + kept.pause;
  }
  // The host has made a commit with the others. False: nothing was known of it.
  bool came_back(HostId host) { return kept_out_.erase(host) > 0; }

  // As journaled by an earlier life of the controller: left out for `pause`; zero: it came back.
  void restore(HostId host, Duration pause) {
    if (pause == Duration()) {
      kept_out_.erase(host);
    } else {
      kept_out_[host] = {.pause = pause, .until = {}, .begins_anew = true};
    }
  }
  // It has got a process since: it was let in again.
  void restore_let_in(HostId host) {
    if (const auto found = kept_out_.find(host); found != kept_out_.end())
      found->second.begins_anew = false;
  }
  void resume(Instant now) {
    for (auto& [host, kept] : kept_out_)
      if (std::exchange(kept.begins_anew, false)) kept.until = now + kept.pause;
  }

  // How long it is kept out from now on.
  Duration kept_out_for(HostId host, Instant now) const {
    const auto found = kept_out_.find(host);
    return found == kept_out_.end() ? Duration() : std::max(Duration(), found->second.until - now);
  }
  bool is_kept_out(HostId host, Instant now) const { return kept_out_for(host, now) > Duration(); }
  Duration pause_of(HostId host) const {
    const auto found = kept_out_.find(host);
    return found == kept_out_.end() ? Duration() : found->second.pause;
  }
  // The next moment at which a host may try again.
  std::optional<Instant> next_return(Instant now) const {
    std::optional<Instant> next;
    for (const auto& [host, kept] : kept_out_)
      if (kept.until > now && (!next || kept.until < *next)) next = kept.until;
    return next;
  }
  // False: there is nothing to remember.
  bool is_in_use() const { return !losses_.empty() || !kept_out_.empty(); }

 private:
  struct Loss {
    uint32_t count = 0;
    EpochNumber newest;
  };
  struct KeptOut {
    Duration pause;
    Instant until;
    bool begins_anew = false;
  };
  std::map<Path, Loss> losses_;
  std::map<HostId, KeptOut> kept_out_;
};

}  // namespace paceline::control
