// Goal: what the agent asks for, event by event. Method: each case is a list of events and the
// effects expected of the last ones, both as text.
#include "core/agent/agent_core.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/str.h"

namespace paceline::agent {
namespace {

RankId rank_id(uint32_t slot, uint32_t incarnation = 1) {
  return {.slot = SlotId(slot), .incarnation = Incarnation(incarnation)};
}

std::string name(RankId rank) { return str(rank.slot, ".", rank.incarnation); }

// --- Effects as text ---

struct Describe {
  std::string operator()(const AgentHello& e) const {
    std::string text = "hello";
    for (const RankPresence& rank : e.ranks)
      text += str(" ", name(rank.rank), "@", rank.committed, rank.is_done ? "(done)" : "");
    return text;
  }
  std::string operator()(const RankStarted& e) const { return str("started ", name(e.rank)); }
  std::string operator()(const RankStartFailed& e) const {
    return str("start-failed ", name(e.rank), e.is_permanent ? " permanent" : "");
  }
  std::string operator()(const RankUp& e) const {
    return str("up ", name(e.rank), " ", e.endpoint.address, ":", e.endpoint.port, " pid ",
               e.process_id);
  }
  std::string operator()(const FromRank& e) const { return str("report ", name(e.rank)); }
  std::string operator()(const RankEntered& e) const {
    return str("entered ", name(e.rank), " ", e.epoch);
  }
  std::string operator()(const RankEnded& e) const {
    constexpr const char* kHow[] = {"dying", "exited", "killed"};
    return str(kHow[static_cast<int>(e.how)], " ", name(e.rank), " ", e.code,
               e.was_ended_by_agent ? " by-agent" : "",
               e.was_in_micro_batch ? str(" in ", e.micro_batch) : "");
  }
  std::string operator()(const RankDone& e) const { return str("done ", name(e.rank)); }
  std::string operator()(const HealProgress& e) const { return str("heal ", name(e.rank)); }
  std::string operator()(const PeerTrouble& e) const {
    return str("peer ", name(e.reporter), "-", name(e.peer));
  }
  std::string operator()(const TagTrouble& e) const { return str("tag ", name(e.reporter)); }
  std::string operator()(const RankDigest& e) const { return str("digest ", name(e.rank)); }
  std::string operator()(const OutputLine& e) const { return str("line ", e.text); }
  std::string operator()(const Window& e) const {
    return str("window ", e.views.size(), "/", e.samples.size());
  }
  std::string operator()(const Spawn& e) const { return str("spawn ", name(e.rank.rank)); }
  std::string operator()(const AskToEnd& e) const { return str("ask ", name(e.rank)); }
  std::string operator()(const EndGroup& e) const { return str("kill ", name(e.rank)); }
  std::string operator()(const TellRank& e) const {
    return str("tell ", name(e.rank), " #", e.order.index());
  }
  std::string operator()(const Send& e) const { return std::visit(*this, e.event); }
  std::string operator()(const Exit&) const { return "exit"; }
};

// --- Events in short ---

Event desired(uint64_t sequence, std::vector<RankId> ranks) {
  Desired command{.sequence = sequence, .program = {}, .ranks = {}};
  for (const RankId rank : ranks) command.ranks.push_back({.rank = rank});
  return CommandReceived{command};
}
// Who is not named is asked to end, and has that long.
Event graceful(uint64_t sequence, Duration grace, std::vector<RankId> ranks = {}) {
  Event event = desired(sequence, std::move(ranks));
  std::get<Desired>(std::get<CommandReceived>(event).command).end_grace = grace;
  return event;
}
Event spawned(RankId rank) {
  return ProcessSpawned{.rank = rank, .process_id = 100 + rank.slot.value()};
}
Event up(RankId rank) { return RankSaid{RankUp{.rank = rank, .endpoint = {.port = 5}}}; }
Event prepare(RankId rank) {
  return CommandReceived{ToRank{.rank = rank, .message = Prepare{EpochNumber(2)}}};
}
RankView view_at(RankId rank, uint64_t committed) {
  RankView view;
  view.rank = rank;
  view.committed = Turn(committed);
  return view;
}
RankView computing(RankId rank, uint32_t micro_batch) {
  RankView view = view_at(rank, 3);
  view.phase = RankPhase::Compute;
  view.micro_batch = MicroBatch(micro_batch);
  return view;
}
Event bell(RankId rank) { return BellRang{.rank = rank, .view = computing(rank, 6)}; }
Event killed(RankId rank) {
  return ProcessEnded{.rank = rank, .is_killed = true, .code = 9, .view = computing(rank, 6)};
}
Event exited(RankId rank, int32_t code) {
  return ProcessEnded{.rank = rank, .is_killed = false, .code = code, .view = view_at(rank, 3)};
}
Event rings(std::vector<RankView> views, size_t samples = 0) {
  RingsRead read{.blind = {}, .views = std::move(views), .samples = {}, .metrics = {}};
  read.samples.resize(samples);
  return read;
}
Event shutdown() { return CommandReceived{Shutdown{}}; }
Event done(RankId rank) {
  return RankSaid{RankDone{.rank = rank, .has_left = false, .committed = Turn(3)}};
}

constexpr Instant kStart = Instant::from_nanoseconds(1'000'000'000);

class Script {
 public:
  std::vector<std::string> play(const std::vector<Event>& events) {
    for (const Event& event : events) core_.step(now_, event);
    std::vector<std::string> texts;
    for (const Effect& effect : core_.take_effects())
      texts.push_back(std::visit(Describe(), effect));
    return texts;
  }
  void wait(Duration duration) { now_ = now_ + duration; }
  const AgentCore& core() const { return core_; }

 private:
  Instant now_ = kStart;
  AgentCore core_{{.host_name = "host0", .agent_instance = 1, .address = 77}, kStart};
};

using Texts = std::vector<std::string>;

struct Case {
  const char* name;
  std::vector<Event> before;  // effects not looked at
  std::vector<Event> events;
  Texts effects;
};

const RankId kA = rank_id(0);
const RankId kB = rank_id(1);
const RankId kA2 = rank_id(0, 2);

const std::vector<Event> kAlive = {StreamUp{}, desired(1, {kA}), spawned(kA), up(kA)};

std::vector<Event> then(std::vector<Event> first, const std::vector<Event>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

std::vector<Case> starting_cases() {
  return {
      {"first message is the hello", {}, {StreamUp{}}, {"hello"}},
      {"missing ranks are started",
       {StreamUp{}},
       {desired(1, {kA, kB})},
       {"spawn 0.1", "spawn 1.1"}},
      {"a repeated desired does nothing", kAlive, {desired(1, {}), desired(1, {kA, kB})}, {}},
      {"an older desired does nothing", then(kAlive, {desired(5, {kA})}), {desired(4, {})}, {}},
      {"the same ranks again do nothing", kAlive, {desired(2, {kA})}, {}},
      {"a successor does not wait for the dying",
       kAlive,
       {desired(2, {kA2})},
       {"kill 0.1", "spawn 0.2"}},
      {"an ended incarnation is not started again",
       then(kAlive, {killed(kA)}),
       {desired(2, {kA})},
       {}},
      {"nor after it was forgotten",
       then(kAlive, {killed(kA), desired(2, {}), desired(3, {})}),
       {desired(4, {kA})},
       {"start-failed 0.1"}},
      {"nor one below a later one",
       then(kAlive, {desired(2, {kA2})}),
       {desired(3, {kA2, rank_id(0, 1)})},
       {}},
      {"a start that fails",
       {StreamUp{}, desired(1, {kA})},
       {SpawnFailed{.rank = kA, .reason = "gone", .is_permanent = true}},
       {"start-failed 0.1 permanent"}},
  };
}

std::vector<Case> ending_cases() {
  return {
      {"who is not desired is ended", kAlive, {desired(2, {})}, {"kill 0.1"}},
      {"its end is the agent's doing",
       then(kAlive, {desired(2, {})}),
       {bell(kA), killed(kA)},
       {"dying 0.1 0 by-agent in 6", "killed 0.1 9 by-agent in 6"}},
      {"ended while it was being started",
       {StreamUp{}, desired(1, {kA}), desired(2, {})},
       {spawned(kA)},
       {"started 0.1", "kill 0.1"}},
      {"the bell is reported at once, the exit after it",
       kAlive,
       {bell(kA), exited(kA, 3)},
       {"dying 0.1 0 in 6", "exited 0.1 3"}},
      {"the bell rings once", then(kAlive, {bell(kA)}), {bell(kA)}, {}},
      {"a bell after the end is silent", then(kAlive, {killed(kA)}), {bell(kA)}, {}},
      {"shutdown ends all, then the agent",
       kAlive,
       {shutdown(), killed(kA)},
       {"kill 0.1", "killed 0.1 9 by-agent in 6", "exit"}},
      {"shutdown of an empty host", {StreamUp{}}, {shutdown()}, {"exit"}},
      {"nothing is started after shutdown",
       kAlive,
       {shutdown(), desired(2, {kA, kB})},
       {"kill 0.1"}},
      {"the parent's end is a shutdown without a controller",
       then(kAlive, {StreamDown{}}),
       {ParentGone{}, killed(kA)},
       {"kill 0.1", "exit"}},
      {"nothing follows the exit",
       {StreamUp{}, shutdown()},
       {StreamDown{}, StreamUp{}, desired(1, {kA})},
       {}},
  };
}

std::vector<Case> carrying_cases() {
  return {
      {"hello of a rank gets address and process",
       {StreamUp{}, desired(1, {kA}), spawned(kA)},
       {up(kA)},
       {"up 0.1 77:5 pid 100"}},
      {"messages to a rank that listens", kAlive, {prepare(kA)}, {"tell 0.1 #1"}},
      {"to one that does not yet are dropped",
       {StreamUp{}, desired(1, {kA}), spawned(kA)},
       {prepare(kA), prepare(kB)},
       {}},
      {"to one that is dying too", then(kAlive, {bell(kA)}), {prepare(kA)}, {}},
      {"release and heal are carried",
       kAlive,
       {CommandReceived{Heal{.rank = kA, .attempt = 1, .donors = {}}},
        CommandReceived{Release{kA}}},
       {"tell 0.1 #4", "tell 0.1 #5"}},
  };
}

std::vector<Case> stream_cases() {
  return {
      {"a new stream counts from the start",
       then(kAlive, {desired(9, {kA}), StreamDown{}, StreamUp{}}),
       {desired(1, {kA, kB})},
       {"spawn 1.1"}},
      {"every window is sent", kAlive, {rings({view_at(kA, 1)}, 2)}, {"window 1/2"}},
      {"the last samples of a broken stream are sent again",
       then(kAlive, {rings({view_at(kA, 1)}, 2), StreamDown{}, StreamUp{}}),
       {rings({view_at(kA, 1)}, 1)},
       {"window 1/3"}},
      {"nothing is sent without a stream",
       then(kAlive, {StreamDown{}}),
       {bell(kA), killed(kA), done(kB), rings({}, 3)},
       {}},
      {"what happened meanwhile is said after the hello",
       then(kAlive, {desired(2, {kA, kB}), spawned(kB), StreamDown{}, done(kB), bell(kA),
                     killed(kA), rings({view_at(kB, 8)}, 3),
                     OutputRead{.rank = kB, .is_stderr = false, .lines = {"x"}}}),
       {StreamUp{}, rings({view_at(kB, 8)}, 1)},
       {"hello 1.1@8(done)", "killed 0.1 9 in 6", "done 1.1", "line x", "window 1/4"}},
      {"an end is said again on every stream while it is desired",
       then(kAlive, {killed(kA), StreamDown{}}),
       {StreamUp{}},
       {"hello", "killed 0.1 9 in 6"}},
      {"a dying rank is still there, and dying",
       then(kAlive, {bell(kA), StreamDown{}}),
       {StreamUp{}},
       {"hello 0.1@3", "dying 0.1 0 in 6"}},
      {"trouble with a peer is said again until it passes",
       then(kAlive, {RankSaid{PeerTrouble{.reporter = kA, .peer = kB}},
                     RankSaid{PeerTrouble{.reporter = kA, .peer = kA2}},
                     RankSaid{PeerTrouble{
                         .reporter = kA, .peer = kB, .what = PeerTrouble::What::HeardAgain}},
                     StreamDown{}}),
       {StreamUp{}},
       {"hello 0.1@0", "peer 0.1-0.2"}},
      {"a new epoch forgets trouble",
       then(kAlive,
            {RankSaid{PeerTrouble{.reporter = kA, .peer = kB}},
             RankSaid{TagTrouble{.reporter = kA, .turn = Turn(0)}},
             RankSaid{RankEntered{
                 .rank = kA, .epoch = EpochNumber(3), .committed = Turn(4), .step = Step(4)}},
             StreamDown{}}),
       {StreamUp{}},
       {"hello 0.1@4"}},
  };
}

TEST(AgentCore, Events_EachCase_GivesItsEffects) {
  for (const auto& cases : {starting_cases(), ending_cases(), carrying_cases(), stream_cases()})
    for (const Case& c : cases) {
      Script script;
      script.play(c.before);
      EXPECT_EQ(script.play(c.events), c.effects) << c.name;
    }
}

constexpr Duration kGrace = Duration::seconds(10);

TEST(AgentCore, Grace_RankIsAskedOnceAndEndedThen) {
  Script script;
  script.play(kAlive);
  EXPECT_EQ(script.play({graceful(2, kGrace)}), Texts{"ask 0.1"});
  EXPECT_EQ(script.core().next_deadline(), kStart + kGrace);
  script.wait(Duration::seconds(4));
  EXPECT_EQ(script.play({graceful(3, kGrace), Tick{}}), Texts{}) << "the first deadline counts";
  script.wait(Duration::seconds(6));
  EXPECT_EQ(script.play({Tick{}}), Texts{"kill 0.1"});
  EXPECT_EQ(script.play({Tick{}}), Texts{});
  EXPECT_EQ(script.play({killed(kA)}), Texts{"killed 0.1 9 by-agent in 6"});
}

TEST(AgentCore, Grace_RankThatEndsInTime_IsNotEnded) {
  Script script;
  script.play(kAlive);
  script.play({graceful(2, kGrace)});
  EXPECT_EQ(script.play({exited(kA, 0)}), Texts{"exited 0.1 0 by-agent"});
  EXPECT_EQ(script.core().next_deadline(), std::nullopt);
}

TEST(AgentCore, Grace_IsCutShortByADesiredWithoutItAndByTheAgentsEnd) {
  for (const Event& hurry : {desired(3, {}), shutdown()}) {
    Script script;
    script.play(kAlive);
    script.play({graceful(2, kGrace)});
    EXPECT_EQ(script.play({hurry}), Texts{"kill 0.1"});
    EXPECT_EQ(script.play({hurry}), Texts{});
  }
}

TEST(AgentCore, Grace_OfARankThatIsBeingStarted_BeginsWithItsProcess) {
  Script script;
  script.play({StreamUp{}, desired(1, {kA}), graceful(2, kGrace)});
  EXPECT_EQ(script.play({spawned(kA)}), (Texts{"started 0.1", "ask 0.1"}));
}

TEST(AgentCore, Orphan_NoControllerAndNoCommit_Exits) {
  Script script;
  script.play({StreamUp{}, desired(1, {kA}), spawned(kA), up(kA)});
  EXPECT_EQ(script.core().next_deadline(), std::nullopt);
  script.wait(Duration::seconds(3600));  // quiet, but with a controller
  EXPECT_EQ(script.play({Tick{}, StreamDown{}}), Texts{});
  script.wait(Duration::seconds(599));
  EXPECT_EQ(script.play({Tick{}, rings({view_at(kA, 4)})}), Texts{});  // a commit: useful still
  script.wait(Duration::seconds(599));
  EXPECT_EQ(script.play({rings({view_at(kA, 4)}), Tick{}}), Texts{});
  script.wait(Duration::seconds(1));
  EXPECT_EQ(script.play({Tick{}}), Texts{"kill 0.1"});
  EXPECT_EQ(script.play({killed(kA)}), Texts{"exit"});
}

TEST(AgentCore, Orphan_ControllerReturns_CountsFromItsNextLoss) {
  Script script;
  script.wait(Duration::seconds(599));
  script.play({StreamUp{}, StreamDown{}});
  EXPECT_EQ(script.core().next_deadline(), kStart + Duration::seconds(599 + 600));
}

TEST(AgentCore, Ending_ProcessThatCannotDie_IsNotWaitedForForEver) {
  Script script;
  script.play({StreamUp{}, desired(1, {kA}), spawned(kA), shutdown()});
  EXPECT_EQ(script.core().next_deadline(), kStart + kEndingLimit);
  script.wait(kEndingLimit);
  EXPECT_EQ(script.play({Tick{}}), Texts{"exit"});
}

TEST(AgentCore, Output_WithoutController_IsBoundedAndSaysWhatIsMissing) {
  Script script;
  script.play({StreamUp{}, desired(1, {kA}), spawned(kA), StreamDown{}});
  for (size_t i = 0; i < kMaxWaitingLines + 5; ++i)
    script.play({OutputRead{.rank = kA, .is_stderr = false, .lines = {str(i)}}});
  const Texts texts = script.play({StreamUp{}});
  ASSERT_EQ(texts.size(), 2 + kMaxWaitingLines);
  EXPECT_EQ(texts[1], "line (5 lines dropped: no controller to take them)");
  EXPECT_EQ(texts[2], "line 5");
}

TEST(AgentCore, LastLines_ManyAndLong_KeepTheNewestWithinBounds) {
  SupervisedRank rank(DesiredRank{.rank = kA});
  rank.spawned(1);
  for (int i = 0; i < 50; ++i) rank.output({str("line ", i)});
  rank.ended({.rank = kA, .is_killed = false, .code = 1, .view = {}});
  const std::vector<std::string> lines = std::get<RankEnded>(rank.end_report()).last_lines;
  ASSERT_EQ(lines.size(), kLastLines);
  EXPECT_EQ(lines.front(), "line 30");
  EXPECT_EQ(lines.back(), "line 49");
  rank.output({std::string(5000, 'x')});
  EXPECT_EQ(std::get<RankEnded>(rank.end_report()).last_lines,
            Texts{std::string(kLastLinesBytes, 'x')});
}

}  // namespace
}  // namespace paceline::agent
