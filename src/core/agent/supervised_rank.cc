#include "core/agent/supervised_rank.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace paceline::agent {
namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;  // clang 14 does not deduce it by itself

}  // namespace

void SupervisedRank::spawned(int64_t process_id) {
  CHECK(life_ == Life::Starting, id());
  CHECK(process_id > 0, id(), " ", process_id);
  life_ = Life::Alive;
  process_id_ = process_id;
  view_.rank = id();
}

void SupervisedRank::spawn_failed(const SpawnFailed& failure) {
  CHECK(life_ == Life::Starting, id());
  life_ = Life::Ended;
  end_at_.reset();
  failure_ = failure;
}

HostEvent SupervisedRank::said(RankMessage message, uint32_t host_address) {
  return std::visit(
      Overloaded{
          [&](RankUp& up) -> HostEvent {
            up.process_id = process_id_;
            if (up.endpoint.address == 0) up.endpoint.address = host_address;
            endpoint_ = up.endpoint;
            is_up_ = true;
            return std::move(up);
          },
          [&](RankEntered& entered) -> HostEvent {
            epoch_ = entered.epoch;
            view_.committed = std::max(view_.committed, entered.committed);
            view_.step = std::max(view_.step, entered.step);
            peer_trouble_.clear();  // an epoch starts with new connections
            tag_trouble_.reset();
            heal_.reset();
            return std::move(entered);
          },
          [&](RankDone& done) -> HostEvent {
            done_ = done;
            return std::move(done);
          },
          [&](HealProgress& heal) -> HostEvent {
            if (heal.what != HealProgress::What::ChunkRepaired) heal_ = heal;
            return std::move(heal);
          },
          [&](TagTrouble& trouble) -> HostEvent {
            tag_trouble_ = trouble;
            return trouble;
          },
          [&](PeerTrouble& trouble) -> HostEvent {
            if (trouble.what == PeerTrouble::What::HeardAgain)
              peer_trouble_.erase(trouble.peer);
            else if (peer_trouble_.size() < kMaxRanks || peer_trouble_.contains(trouble.peer))
              peer_trouble_[trouble.peer] = trouble;
            return trouble;
          },
          // A controller that misses these asks again (Prepare), or gets the next one (digest).
          [&](FromRank& report) -> HostEvent { return std::move(report); },
          [&](RankDigest& digest) -> HostEvent { return digest; }},
      message);
}

bool SupervisedRank::bell_rang(const RankView& view) {
  if (life_ != Life::Alive) return false;
  life_ = Life::Dying;
  view_ = view;
  return true;
}

void SupervisedRank::ended(const ProcessEnded& end) {
  CHECK(has_process(), id());
  life_ = Life::Ended;
  end_at_.reset();
  view_ = end.view;
  end_ = end;
}

void SupervisedRank::output(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    last_lines_.push_back(line.substr(0, kLastLinesBytes));
    last_lines_bytes_ += last_lines_.back().size();
    while (last_lines_.size() > kLastLines || last_lines_bytes_ > kLastLinesBytes) {
      last_lines_bytes_ -= last_lines_.front().size();
      last_lines_.pop_front();
    }
  }
}

bool SupervisedRank::seen(const RankView& view) {
  const bool has_committed = view.committed > view_.committed;
  view_ = view;
  return has_committed;
}

RankPresence SupervisedRank::presence() const {
  return {.rank = id(),
          .endpoint = endpoint_,
          .epoch = epoch_,
          .committed = view_.committed,
          .step = view_.step,
          .process_id = process_id_,
          .is_done = done_.has_value(),
          .state_digest = done_ ? done_->state_digest : 0};
}

HostEvent SupervisedRank::end_report() const {
  CHECK(life_ == Life::Dying || life_ == Life::Ended, id());
  if (failure_)
    return RankStartFailed{
        .rank = id(), .reason = failure_->reason, .is_permanent = failure_->is_permanent};
  RankEnded report{.rank = id(),
                   .was_ended_by_agent = was_ended_by_agent_,
                   .was_in_micro_batch = view_.phase == RankPhase::Compute,
                   .phase = view_.phase,
                   .committed = view_.committed,
                   .step = view_.step,
                   .begun = view_.begun,
                   .micro_batch = view_.micro_batch,
                   .micro_batch_seed = view_.micro_batch_seed,
                   .last_lines = {last_lines_.begin(), last_lines_.end()}};
  if (end_) {
    report.how = end_->is_killed ? RankEnded::How::Killed : RankEnded::How::Exited;
    report.code = end_->code;
  }
  return report;
}

std::vector<HostEvent> SupervisedRank::facts() const {
  std::vector<HostEvent> facts;
  if (heal_) facts.push_back(*heal_);
  if (done_) facts.push_back(*done_);
  if (life_ == Life::Dying || life_ == Life::Ended) {
    facts.push_back(end_report());
    return facts;
  }
  for (const auto& [peer, trouble] : peer_trouble_) facts.push_back(trouble);
  if (tag_trouble_ && tag_trouble_->turn >= view_.committed) facts.push_back(*tag_trouble_);
  return facts;
}

}  // namespace paceline::agent
