#include "core/agent/agent_core.h"

#include <algorithm>
#include <set>
#include <variant>

#include "base/check.h"
#include "base/str.h"

namespace paceline::agent {
namespace {

// Appends to a queue of bounded length; the oldest goes first. Returns how many were dropped.
template <class T>
uint64_t push_bounded(std::deque<T>& queue, T value, size_t bound) {
  queue.push_back(std::move(value));
  if (queue.size() <= bound) return 0;
  queue.pop_front();
  return 1;
}

template <class T>
std::vector<T> take_all(std::deque<T>& queue) {
  std::vector<T> all(std::make_move_iterator(queue.begin()), std::make_move_iterator(queue.end()));
  queue.clear();
  return all;
}

RankId subject_of(const RankMessage& message) {
  return std::visit(
      [](const auto& m) {
        if constexpr (requires { m.reporter; })
          return m.reporter;
        else
          return m.rank;
      },
      message);
}

// Everything but what comes of itself while all is well.
bool is_disturbance(const Event& event) {
  if (const auto* said = std::get_if<RankSaid>(&event))
    return !std::holds_alternative<RankDigest>(said->message);
  return !std::holds_alternative<RingsRead>(event) && !std::holds_alternative<OutputRead>(event) &&
         !std::holds_alternative<Tick>(event);
}

}  // namespace

AgentCore::AgentCore(Config config, Instant now)
    : config_(std::move(config)), now_(now), last_sign_(now), pace_(config_.windows, now) {}

void AgentCore::step(Instant now, const Event& event) {
  CHECK(now >= now_, "time runs backwards");
  now_ = now;
  if (has_exited_) return;
  if (is_disturbance(event)) pace_.disturbed(now_);
  std::visit([this](const auto& e) { on(e); }, event);
}

std::vector<Effect> AgentCore::take_effects() { return std::exchange(effects_, {}); }

std::optional<Instant> AgentCore::next_deadline() const {
  if (has_exited_) return std::nullopt;
  if (is_ending()) return ending_limit_;
  std::optional<Instant> next;
  if (!is_stream_up_) next = orphan_deadline();
  for (const auto& [id, rank] : ranks_)
    if (rank.end_at()) next = std::min(next.value_or(*rank.end_at()), *rank.end_at());
  return next;
}

// --- The controller ---

void AgentCore::on(const CommandReceived& event) {
  std::visit([this](const auto& command) { take(command); }, event.command);
}

void AgentCore::on(const StreamUp&) {
  is_stream_up_ = true;
  sequence_ = 0;  // a restarted controller counts from the start; order within a stream is given
  AgentHello hello{.host_name = config_.host_name,
                   .agent_instance = config_.agent_instance,
                   .address = config_.address,
                   .ranks = {}};
  for (const auto& [id, rank] : ranks_)
    if (rank.has_process()) hello.ranks.push_back(rank.presence());
  send(std::move(hello));
  for (const auto& [id, rank] : ranks_)
    for (HostEvent& fact : rank.facts()) send(std::move(fact));
  send_waiting_lines();
  send_samples_again();
}

void AgentCore::on(const StreamDown&) {
  if (is_stream_up_) last_sign_ = now_;
  is_stream_up_ = false;
}

void AgentCore::take(const Desired& desired) {
  if (desired.sequence <= sequence_ || is_ending()) return;
  sequence_ = desired.sequence;
  end_undesired(desired);
  start_missing(desired);
}

void AgentCore::take(const ToRank& command) {
  std::visit([&](const auto& message) { tell(command.rank, message); }, command.message);
}
void AgentCore::take(const Heal& command) { tell(command.rank, command); }
void AgentCore::take(const Release& command) { tell(command.rank, command); }
void AgentCore::take(const Shutdown&) { end_everything(""); }

void AgentCore::end_undesired(const Desired& desired) {
  std::set<RankId> wanted;
  for (const DesiredRank& rank : desired.ranks) wanted.insert(rank.rank);
  for (auto& [id, rank] : ranks_)
    if (!wanted.contains(id)) end_rank(rank, {.grace = desired.end_grace});
  // The controller knows the end of whoever it names no more.
  std::erase_if(ranks_, [&](const auto& entry) {
    return !wanted.contains(entry.first) && entry.second.life() == SupervisedRank::Life::Ended;
  });
}

void AgentCore::start_missing(const Desired& desired) {
  for (const DesiredRank& wanted : desired.ranks) {
    if (ranks_.contains(wanted.rank)) continue;
    Incarnation& newest = spawned_[wanted.rank.slot];
    if (wanted.rank.incarnation <= newest) {
      send(RankStartFailed{.rank = wanted.rank,
                           .reason = str("incarnation ", wanted.rank.incarnation, " of slot ",
                                         wanted.rank.slot, " has been started before")});
      continue;
    }
    newest = wanted.rank.incarnation;
    ranks_.emplace(wanted.rank, SupervisedRank(wanted));
    effects_.emplace_back(Spawn{.rank = wanted,
                                .program = desired.program,
                                .local_world_size = static_cast<uint32_t>(desired.ranks.size())});
  }
}

// --- Ranks ---

void AgentCore::on(const ProcessSpawned& event) {
  SupervisedRank* rank = find(event.rank);
  CHECK(rank != nullptr, event.rank);
  rank->spawned(event.process_id);
  send(RankStarted{.rank = event.rank, .process_id = event.process_id});
  // A Desired or Shutdown may have come between.
  if (rank->end_at())
    effects_.emplace_back(AskToEnd{.rank = event.rank});
  else if (is_ending() || rank->was_ended_by_agent())
    effects_.emplace_back(EndGroup{.rank = event.rank});
}

void AgentCore::on(const SpawnFailed& event) {
  SupervisedRank* rank = find(event.rank);
  CHECK(rank != nullptr, event.rank);
  rank->spawn_failed(event);
  send(rank->end_report());
  exit_if_clean();
}

void AgentCore::on(const RankSaid& event) {
  SupervisedRank* rank = find(subject_of(event.message));
  // What a rank had still to say when it began to end counts; after its end there is nothing.
  if (rank == nullptr || !rank->has_process()) return;
  send(rank->said(event.message, config_.address));
}

void AgentCore::on(const BellRang& event) {
  SupervisedRank* rank = find(event.rank);
  if (rank == nullptr || !rank->bell_rang(event.view)) return;
  send(rank->end_report());
}

void AgentCore::on(const ProcessEnded& event) {
  SupervisedRank* rank = find(event.rank);
  CHECK(rank != nullptr, event.rank);
  rank->ended(event);
  send(rank->end_report());
  exit_if_clean();
}

void AgentCore::on(const OutputRead& event) {
  if (SupervisedRank* rank = find(event.rank)) rank->output(event.lines);
  for (const std::string& text : event.lines)
    lines_dropped_ += push_bounded(
        lines_, OutputLine{.rank = event.rank, .is_stderr = event.is_stderr, .text = text},
        kMaxWaitingLines);
  if (is_stream_up_) send_waiting_lines();
}

void AgentCore::on(const RingsRead& event) {
  pace_.read(now_, event);
  for (const RankView& view : event.views) {
    SupervisedRank* rank = find(view.rank);
    if (rank != nullptr && rank->has_process() && rank->seen(view))
      last_sign_ = std::max(last_sign_, now_);
  }
  for (const auto& sample : event.samples) push_bounded(samples_, sample, kMaxWaitingSamples);
  for (const RankMetric& metric : event.metrics) push_bounded(metrics_, metric, kMaxWaitingMetrics);
  if (!is_stream_up_) return;
  remember_sent_samples();
  send(Window{.at = now_,
              .blind = event.blind,
              .views = event.views,
              .samples = take_all(samples_),
              .metrics = take_all(metrics_)});
}

void AgentCore::remember_sent_samples() {
  for (const auto& sample : samples_) sent_samples_.emplace_back(now_, sample);
  while (!sent_samples_.empty() && (sent_samples_.size() > kMaxWaitingSamples ||
                                    sent_samples_.front().first + kSendAgain < now_))
    sent_samples_.pop_front();
}

void AgentCore::send_samples_again() {
  while (!sent_samples_.empty()) {
    samples_.push_front(sent_samples_.back().second);
    sent_samples_.pop_back();
  }
}

void AgentCore::on(const ParentGone&) { end_everything("the process that it served has ended"); }

void AgentCore::on(const Tick&) {
  if (is_ending()) {
    if (now_ >= *ending_limit_) exit(str(ending_reason_, "; a process could not be ended"));
    return;
  }
  end_overdue();
  if (!is_stream_up_ && now_ >= orphan_deadline())
    end_everything(str("no controller and no commit for ", config_.orphan_limit));
}

void AgentCore::tell(RankId id, RankOrder order) {
  // A rank that does not listen yet gets it again: the controller repeats what is not answered.
  const SupervisedRank* rank = find(id);
  if (rank != nullptr && rank->is_up()) effects_.emplace_back(TellRank{id, std::move(order)});
}

// --- The end ---

void AgentCore::end_rank(SupervisedRank& rank, EndReason reason) {
  if (rank.life() == SupervisedRank::Life::Ended) return;
  const bool is_asked = rank.end_at().has_value();
  const bool is_sooner = is_asked && now_ + reason.grace < *rank.end_at();
  if ((rank.was_ended_by_agent() || is_asked) && !is_sooner) return;
  // A rank that is dying by itself is not this agent's doing; its group is ended all the same.
  if (rank.life() != SupervisedRank::Life::Dying) rank.ended_by_agent();
  if (reason.grace > Duration()) {
    rank.end_at(now_ + reason.grace);
    if (rank.has_process() && !is_asked) effects_.emplace_back(AskToEnd{.rank = rank.id()});
    return;
  }
  rank.end_at(std::nullopt);
  if (rank.has_process())
    effects_.emplace_back(
        EndGroup{.rank = rank.id(), .is_evidence_wanted = !reason.is_host_ending && !is_asked});
}

void AgentCore::end_overdue() {
  for (auto& [id, rank] : ranks_)
    if (rank.end_at() && now_ >= *rank.end_at()) {
      rank.end_at(std::nullopt);
      if (rank.has_process()) effects_.emplace_back(EndGroup{.rank = id});
    }
}

void AgentCore::end_everything(std::string reason) {
  if (is_ending()) return;
  ending_limit_ = now_ + kEndingLimit;
  ending_reason_ = std::move(reason);
  for (auto& [id, rank] : ranks_) end_rank(rank, {.is_host_ending = true});
  exit_if_clean();
}

void AgentCore::exit_if_clean() {
  if (!is_ending() || has_exited_) return;
  for (const auto& [id, rank] : ranks_)
    if (rank.life() != SupervisedRank::Life::Ended) return;
  exit(ending_reason_);
}

void AgentCore::exit(std::string reason) {
  has_exited_ = true;
  effects_.emplace_back(Exit{std::move(reason)});
}

// --- Sending ---

void AgentCore::send(HostEvent event) {
  if (is_stream_up_) effects_.emplace_back(Send{std::move(event)});
}

void AgentCore::send_waiting_lines() {
  if (lines_dropped_ > 0)
    send(OutputLine{
        .rank = lines_.front().rank,
        .is_stderr = true,
        .text = str("(", lines_dropped_, " lines dropped: no controller to take them)")});
  lines_dropped_ = 0;
  for (OutputLine& line : lines_) send(std::move(line));
  lines_.clear();
}

SupervisedRank* AgentCore::find(RankId rank) {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

}  // namespace paceline::agent
