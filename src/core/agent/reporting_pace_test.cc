// Goal: readings are rare only while every rank goes on as usual. Method: a host of two ranks in
// 50 ms turns is read whenever the pace asks for it; each case changes one thing and measures how
// soon readings are frequent.
#include "core/agent/reporting_pace.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

namespace paceline::agent {
namespace {

constexpr Duration kTurn = Duration::milliseconds(50);
constexpr Duration kLively = kWindowInterval;
constexpr Duration kCalm = kQuietWindowInterval;

// Its ranks commit every kTurn, beat, and are read when the pace says so.
class Host {
 public:
  struct Rank {
    RankView view;
    Duration turn = kTurn;
    bool is_waiting = false;  // commits no more
    bool is_silent = false;   // beats no more
    size_t metrics = 0;       // of each turn
  };

  Host() {
    for (uint32_t i = 0; i < 2; ++i) {
      Rank rank;
      rank.view.rank = {.slot = SlotId(i), .incarnation = Incarnation(1)};
      rank.view.phase = RankPhase::Compute;
      rank.view.last_beat = now_;
      committed_.push_back(now_);
      ranks.push_back(rank);
    }
  }

  // Up to the next reading, and the time to the one after it.
  Duration read() {
    now_ = pace.next_reading();
    RingsRead rings;
    for (size_t i = 0; i < ranks.size(); ++i) {
      Rank& rank = ranks[i];
      while (!rank.is_waiting && committed_[i] + rank.turn <= now_) {
        committed_[i] = committed_[i] + rank.turn;
        RankSample sample;
        sample.committed = committed_[i];
        rings.samples.emplace_back(rank.view.rank, sample);
        RankMetric metric;
        metric.rank = rank.view.rank;
        rings.metrics.resize(rings.metrics.size() + rank.metrics, metric);
      }
      if (!rank.is_silent) rank.view.last_beat = now_;
      rings.views.push_back(rank.view);
    }
    pace.read(now_, rings);
    return pace.next_reading() - now_;
  }
  void read_for(Duration time) {
    for (const Instant until = now_ + time; now_ < until;) read();
  }
  Instant now() const { return now_; }

  std::vector<Rank> ranks;

 private:
  Instant now_ = Instant::from_nanoseconds(1'000'000'000);
  std::vector<Instant> committed_;

 public:
  ReportingPace pace{{}, now_};
};

TEST(ReportingPace, AllAsUsual_IsCalmOnceTheStartHasSettled) {
  Host host;
  EXPECT_EQ(host.read(), kLively) << "nothing is known of its turns";
  host.read_for(Duration::seconds(3));
  EXPECT_EQ(host.read(), kCalm);
  host.read_for(Duration::seconds(60));
  EXPECT_EQ(host.read(), kCalm);
}

TEST(ReportingPace, HostWithoutRanks_IsCalm) {
  Host host;
  host.ranks.clear();
  host.read_for(Duration::seconds(3));
  EXPECT_EQ(host.read(), kCalm);
}

TEST(ReportingPace, Unusual_EachCase_IsLivelyFromTheNextReadingOn) {
  struct Case {
    const char* name;
    std::function<void(Host::Rank&)> change;
  };
  const std::vector<Case> cases = {
      {"stopped", [](Host::Rank& r) { r.view.is_stopped = true; }},
      {"traced", [](Host::Rank& r) { r.view.is_traced = true; }},
      {"refused", [](Host::Rank& r) { r.view.refused_since = Instant::from_nanoseconds(7); }},
      {"no beat", [](Host::Rank& r) { r.is_silent = true; }},
      {"heals", [](Host::Rank& r) { r.view.phase = RankPhase::Heal; }},
      {"is asked", [](Host::Rank& r) { r.view.phase = RankPhase::Prepare; }},
      {"is done", [](Host::Rank& r) { r.view.phase = RankPhase::Done; }},
      {"many samples", [](Host::Rank& r) { r.turn = Duration::milliseconds(2); }},
      {"many metrics", [](Host::Rank& r) { r.metrics = 5; }},
      {"another process", [](Host::Rank& r) { r.view.rank.incarnation = Incarnation(2); }}};
  for (const Case& c : cases) {
    Host host;
    host.read_for(Duration::seconds(3));
    c.change(host.ranks[1]);
    EXPECT_EQ(host.read(), kLively) << c.name;
  }
}

TEST(ReportingPace, TurnThatStaysOpen_IsUnusualBeforeAnyLimitOfADetector) {
  for (const Duration turn :
       {Duration::milliseconds(20), kTurn, Duration::milliseconds(400), Duration::seconds(10)}) {
    Host host;
    for (Host::Rank& rank : host.ranks) rank.turn = turn;
    host.read_for(turn * 12 + Duration::seconds(3));
    const Instant stuck = host.now();
    for (Host::Rank& rank : host.ranks) rank.is_waiting = true;
    while (host.read() == kCalm) {
    }
    // Hung at the latest since the last commit; the first limit is max(2 turns, 300 ms) after that.
    EXPECT_LE(host.now() - stuck, turn * 2 + Duration::milliseconds(100) + kCalm) << turn;
  }
}

TEST(ReportingPace, LongTurn_IsCalmAgainAfterIt) {
  Host host;
  host.read_for(Duration::seconds(3));
  host.ranks[0].is_waiting = true;
  host.read_for(Duration::seconds(1));
  EXPECT_EQ(host.read(), kLively);
  host.ranks[0].is_waiting = false;
  host.read();
  EXPECT_EQ(host.read(), kCalm);
}

TEST(ReportingPace, Disturbed_ReadsAtOnceAndStaysLivelyForAWhile) {
  Host host;
  host.read_for(Duration::seconds(3));
  ASSERT_EQ(host.read(), kCalm);
  const Instant soon = host.now() + Duration::milliseconds(10);
  host.pace.disturbed(soon);
  EXPECT_EQ(host.pace.next_reading(), host.now() + kLively);
  EXPECT_EQ(host.read(), kLively);
  const Instant last = host.now();
  host.read_for(Duration::milliseconds(1800));
  EXPECT_EQ(host.read(), kLively);
  host.read_for(Duration::milliseconds(300));
  EXPECT_EQ(host.read(), kCalm) << "since " << (host.now() - last);
}

TEST(ReportingPace, DisturbedLate_ReadsNowAndNotInThePast) {
  Host host;
  host.read_for(Duration::seconds(3));
  ASSERT_EQ(host.read(), kCalm);
  const Instant late = host.now() + Duration::milliseconds(120);
  host.pace.disturbed(late);
  EXPECT_EQ(host.pace.next_reading(), late);
}

TEST(ReportingPace, BrokenRing_AnyTimesInIt_AreLively) {
  for (const int64_t time : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
    Host host;
    host.read_for(Duration::seconds(3));
    host.ranks[0].is_silent = true;
    host.ranks[0].view.last_beat = Instant::from_nanoseconds(time);
    RingsRead rings;
    for (const Host::Rank& rank : host.ranks) rings.views.push_back(rank.view);
    RankSample sample;
    sample.committed = Instant::from_nanoseconds(time);
    rings.samples.assign(20, {rings.views[0].rank, sample});
    host.pace.read(host.now() + kCalm, rings);
    host.read_for(Duration::seconds(1));
    EXPECT_EQ(host.read(), kLively) << time;
  }
}

}  // namespace
}  // namespace paceline::agent
