// The state behind ControllerCore, and its rules by subject:
//
//   controller_core.cc     which event goes where; deadlines; journal
//   controller_job.cc      gather hosts, place slots, start, stop, end
//   controller_hosts.cc    streams, silence, hosts that are lost and come back
//   controller_paths.cc    connections that are lost though both sides live
//   controller_ranks.cc    processes: start, end, restart, heal, join
//   controller_spares.cc   cold spares: when idle hosts start processes in the place of others
//   controller_poison.cc   micro-batches that end the ranks that compute them
//   controller_restart.cc  programs that do not link the library
//   controller_checkpoint.cc  roll back to a checkpoint
//   controller_repair.cc   epochs and incidents: what a decision of Membership means
//   controller_watch.cc    samples in; progress, turns and goodput out
//   controller_judgement.cc  hangs, stragglers, and the division of work by pace
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/control/balanced_divider.h"
#include "core/control/controller_core.h"
#include "core/control/goodput_ledger.h"
#include "core/control/incident_log.h"
#include "core/control/judgement.h"
#include "core/control/membership.h"
#include "core/control/path_ledger.h"
#include "core/control/roster.h"
#include "core/control/turn_log.h"
#include "core/recovery/choice.h"

namespace paceline::control {

enum class JobPhase : uint8_t {
  None,
  Gathering,  // waits for hosts
  Starting,   // ranks are starting; no epoch yet
  Running,
  Ending,  // the verdict is known; processes are ending
  Finished,
};

// The library's own thread answers a Prepare whatever the program does: who has not answered after
// this long does not run.
inline constexpr Duration kAnswerLimit = Duration::milliseconds(500);
// An agent tries to reach a controller that is away twice a second.
inline constexpr Duration kReturnLimit = Duration::seconds(2);
// All members of a planned epoch enter it at one commit. Who is not in it when the others have made
// no commit for this long, and for so many of their steps, never will be.
inline constexpr Duration kEntryLimit = Duration::seconds(2);
inline constexpr int64_t kEntrySteps = 20;

// No repair holds up the start of a process for longer: where steps are long it would miss more.
inline constexpr Duration kRepairLimit = Duration::milliseconds(250);

inline constexpr const char* kHopeless = "another try would end in the same way";

// How long the end of a job waits for the samples of its last turns.
inline constexpr Duration kLastSamples = Duration::milliseconds(300);

class ControllerCore::State {
 public:
  // --- controller_core.cc ---
  void restore(const JournalRecord& record);
  void step(Instant now, const Event& event);
  uint64_t digest() const;

  Effects effects;
  JobPhase phase = JobPhase::None;
  std::optional<Instant> deadline;  // when something can become due without an event

 private:
  void on(const Submit& event);
  void on(const HostConnected& event);
  void on(const HostSaid& event);
  void on(const HostDisconnected& event);
  void on(const StopRequested& event);
  void on(const RecoveryModeSet& event);
  void on(const CheckpointFound& found);
  void on(const Restarted& event);
  void on(const Tick& event);

  void was_blind(Duration blind);
  std::optional<Instant> next_deadline() const;

  // --- controller_job.cc ---
  void prepare_job(const JobSpec& spec);
  void place_if_gathered();
  void tell_started();
  void place(const std::vector<HostId>& chosen);
  void take_as_aware();
  void start_if_all_up();
  void request_stop();
  void finish_if_all_done();
  void end_job(Verdict verdict, int32_t exit_code, std::string reason);
  void shut_down_if_clean();
  uint64_t agreed_digest() const;

  // --- controller_hosts.cc ---
  void heard(Host& host);
  void adopt(Host& host, const AgentHello& hello);
  bool is_left_behind(const RankPresence& presence) const;
  void note_trouble(const PeerTrouble& trouble);
  void judge_silence();
  void judge_unanswered();
  void judge_unentered();
  Duration entry_limit() const;
  Duration answer_limit() const { return std::max(kAnswerLimit, spec_.silence_limit); }
  bool is_heard(const Host& host) const {
    return host.is_connected && now_ - host.last_heard < spec_.silence_limit;
  }
  bool is_expected_back(const Host& host) const {
    return !host.has_connected && now_ - host.last_heard < kReturnLimit;
  }
  bool is_missed_by_peers(HostId host) const;
  bool holds_member(HostId host);
  void judge_unwatched_hosts();
  bool is_silent_for_good(const Host& host) const;
  void lose_host(Host& host, std::string evidence);
  void readmit_if_clean(Host& host);
  void desire(HostId host);

  // --- controller_paths.cc ---
  struct LostConnection {
    RankId reporter, peer;
    EpochNumber epoch;
    Instant due;  // then it is taken for unexplained
    bool is_silent = false;
  };
  void note_lost_connection(const PeerTrouble& trouble);
  bool lives(RankId rank, const LostConnection& lost) const;
  void judge_lost_connections();
  bool leave_out_dead_paths();
  void leave_out(HostId host, PathLedger::Path path);
  void note_reached(RankId rank, EpochNumber epoch);
  void resume_kept_out();

  // --- controller_ranks.cc ---
  void on(HostId host, const RankStarted& event);
  void on(HostId host, const RankStartFailed& event);
  void on(HostId host, const RankUp& event);
  void on(HostId host, const FromRank& event);
  void on(HostId host, const RankEntered& event);
  void on(HostId host, const RankEnded& event);
  void on(HostId host, const RankDone& event);
  void on(HostId host, const HealProgress& event);
  void on(HostId host, const PeerTrouble& event);
  void on(HostId host, const TagTrouble& event);
  void on(HostId host, const RankDigest& event);
  void report_split_state(Step step, size_t ranks);
  void on(HostId host, const OutputLine& event);
  void on(HostId host, const Window& event);
  void on(HostId host, const AgentHello& event);
  void assign_process(Slot& slot, bool is_joiner);
  void journal_assignment(const Slot& slot);
  void rank_is_dying(Slot& slot);
  void lose_hung_rank(Slot& slot, HangClass hang_class, std::string evidence);
  void rank_is_gone(Slot& slot, const RankEnded& event);
  void give_up_or_restart(Slot& slot, const RankEnded& event);
  bool is_hopeless(Slot& slot, const RankEnded& event);
  std::string describe_end(const Slot& slot, const RankEnded& event,
                           const std::string& judgement) const;
  void restart_due();
  // Until the others commit again.
  bool is_repairing() const {
    return membership_ &&
           (incidents_.is_repairing() || membership_->phase() == Membership::Phase::Preparing);
  }
  void advance_joiners();
  void send_heal(Slot& slot);
  void announce_pending();
  std::vector<Donor> donors_for(const Slot& slot) const;
  bool has_share(const Slot& slot) const;

  // --- controller_spares.cc ---
  size_t count_idle_spares() const;
  bool is_idle_spare(const Slot& slot) const;
  void lay_idle(Slot& slot);
  std::vector<Slot*> start_spares_for(const std::vector<Slot*>& lost);
  void replace_abandoned();
  void replace_unreachable();
  std::optional<Duration> restart_after(const Slot& slot) const;
  std::string names_of(const std::vector<Slot*>& slots) const;

  // --- controller_poison.cc ---
  void restore(const MicroBatchBlamed& blamed);
  void suspect(const Slot& slot, const RankEnded& event);
  bool has_suspects() const;
  void wait_for_suspects();
  void blame_micro_batch(const Slot& slot, const RankEnded& event);
  void found_poison(const Skipped& micro_batch, std::optional<RankId> last);
  bool can_skip(const Skipped& micro_batch) const;
  void end_poisoned();

  // --- controller_restart.cc ---
  void unaware_rank_ended(Slot& slot, const RankEnded& event);
  struct AttemptEnd {
    std::string reason;
    int32_t exit_code = 0;
    bool is_hopeless = false;
  };
  void end_attempt(Incident& incident, AttemptEnd end);
  void stop_unaware();
  void finish_stopped_unaware();
  void judge_unaware_hosts();
  void start_next_attempt();
  std::optional<HostId> idle_host();
  void finish_unaware();

  // --- controller_checkpoint.cc ---
  void restore_job(const JobSpec& spec);
  void carry_out(const RollBack& effect);
  void roll_back();
  void start_from(const CheckpointFound& found);
  bool is_awaited(const Slot& slot) const;

  // --- controller_repair.cc ---
  void carry_out_membership();
  void carry_out(MembershipRecord record);
  void carry_out(SendControl send);
  void carry_out(const Decided& effect);
  void carry_out(const Settled& effect);
  Incident& open_incident(IncidentKind kind, std::optional<Slot*> slot);
  Incident* open_incident_of(const Slot& slot);
  Incident* open_incident_of(HostId host);
  void restore_incident(const Incident& incident);
  void resume_incidents();
  void await_replacements();
  void note_lost_work(const Slot& slot);
  uint32_t lost_work_of(const Incident& incident, const Epoch& decision) const;
  void publish(const Incident& incident);
  void publish_as_over(Incident& incident);
  void explain_repair(Incident& incident, const Decided& decision, uint32_t redone);
  void set_divider();

  // --- controller_watch.cc ---
  void take_window(HostId host, const Window& window);
  void take_sample(RankId rank, const RankSample& sample);
  void advance_ledger();
  void note_skipped(const MembershipRecord& record);
  void note_commit(Turn committed, Step step, EpochNumber epoch);

  // --- controller_judgement.cc ---
  RecoveryMode mode_of(const char* scope) const;
  void set_mode(const RecoveryModeSet& change);
  void measure(RankId rank, const RankSample& sample);
  void forget_the_gone();
  Duration launch_time() const;
  Duration heal_time() const;
  Duration restart_time() const { return launch_time() + heal_time(); }
  void judge();
  void judge_hangs();
  void judge_joiners(const std::vector<RankId>& members);
  void observe_hang(Slot& slot, const recovery::HangFinding& finding);
  void end_observed_hangs();
  void judge_endless_collective(const recovery::HangFinding& finding);
  void judge_pace();
  void begin_slowness(const recovery::PaceChange& change);
  void end_slowness(RankId rank, const std::string& why);
  void restore_slowness(const Incident& incident);
  void resume_slowness();
  void end_earlier_slowness();
  std::map<RankId, int64_t> costs_of_members() const;
  uint64_t subject_of_pace(const std::map<RankId, int64_t>& costs) const;
  void divide_by_pace();
  recovery::PaceQuestion ask_about_pace(const std::map<RankId, int64_t>& costs) const;
  void carry_out_pace(const Alternative& chosen);
  void follow_rebalance();
  std::set<RankId> standby_with(const std::set<RankId>& relieved) const;
  std::vector<Alternative> price_loss_of(const std::vector<Slot*>& lost, uint32_t redone) const;

  // --- Small parts ---
  void journal(JournalRecord record) { effects.journal.push_back(std::move(record)); }
  void send(HostId host, HostCommand command);
  void watch(JobEvent event) { effects.watch.push_back(std::move(event)); }
  void notice(std::string text) { watch(Notice{std::move(text)}); }
  std::string host_name(HostId host) const;
  static std::string how_it_ended(const RankEnded& event);
  static int32_t exit_code_of(const RankEnded& event);  // of the job that ends with it
  // "rank 3 on host1"
  std::string describe(const Slot& slot) const;
  void drive();

  Instant now_;
  JobSpec spec_;
  Roster roster_;
  IncidentLog incidents_;
  BalancedDivider divider_;
  std::optional<Membership> membership_;  // of a job that links the library
  std::optional<TurnLog> turns_;
  std::optional<GoodputLedger> ledger_;
  Judgement judgement_;
  uint32_t world_size_ = 0;  // working ranks at the start

  std::optional<Instant> gather_until_;
  std::optional<EpochNumber> roll_back_due_;  // no member of it is left
  std::string roll_back_cause_;
  std::optional<std::string> roll_back_reason_;  // until the first decision after it
  std::optional<Step> rolled_back_to_;           // by the last roll-back
  uint32_t roll_backs_ = 0;                      // without a newer checkpoint in between
  bool is_stop_wanted_ = false;
  bool is_rebalance_wanted_ = false;
  uint32_t attempts_ = 0;               // restarts of a job that does not link the library
  bool is_attempt_over_ = false;        // its processes are ending; the next attempt follows
  Duration end_grace_;                  // of Desired
  std::optional<Instant> stop_by_;      // then whoever has not ended is ended
  bool has_saved_ = true;               // all have ended with code 0 since they were asked to
  Turn done_committed_;                 // the highest that a rank in finalize has reported
  std::optional<Instant> all_done_at_;  // when the last member was
  std::optional<Instant> shut_down_by_;
  Verdict verdict_ = Verdict::Completed;
  int32_t exit_code_ = 0;

  Turn committed_;  // the newest commit heard of
  Step step_;
  EpochNumber commit_epoch_;
  std::map<Skipped, std::vector<MicroBatchBlamed>> blamed_;
  // Slots whose process began to end while it computed this; until it is known how it has ended.
  std::map<SlotId, Skipped> ending_in_;
  std::optional<std::string> poison_;  // why the job is to stop at its last commit
  // Who says that he does not hear whom.
  std::map<RankId, std::set<RankId>> silent_to_;
  std::vector<LostConnection> lost_connections_;  // not yet explained by a death
  PathLedger paths_;
  // What lost ranks had begun, until a decision gives it to others.
  struct LostWork {
    Turn committed;
    uint32_t begun = 0;
    std::optional<uint32_t> incident;
  };
  std::map<RankId, LostWork> lost_work_;
  std::map<Step, std::map<RankId, uint64_t>> digests_;
  bool is_split_told_ = false;
  std::optional<Instant> asked_at_;  // when the running Prepare was first seen to run
  EpochNumber asked_epoch_;
  std::optional<Instant> half_entered_at_;  // when the planned epoch was, at this commit
  Turn half_entered_turn_;
};

}  // namespace paceline::control
