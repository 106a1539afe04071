#include "core/sched/verdict.h"

#include "base/check.h"
#include "base/str.h"

namespace paceline::sched {
namespace {

std::string resource_name(size_t resource) {
  switch (resource) {
    case kGpu:
      return "GPUs";
    case kCpu:
      return "CPUs";
    case kMemory:
      return "MiB of memory";
    default:
      return str("resource ", resource);
  }
}

// In what people count: GPUs and CPUs, not their thousandths.
std::string amount_text(int64_t amount, const std::string& resource) {
  if (resource != "GPUs" && resource != "CPUs") return str(amount);
  const int64_t rest = amount % kMilli;
  if (rest == 0) return str(amount / kMilli);
  std::string digits = str(kMilli + rest).substr(1);
  digits.erase(digits.find_last_not_of('0') + 1);
  return str(amount / kMilli, ".", digits);
}

Verdict verdict_of(const LimitBreach& breach, const QueueTree& queues, Answer answer) {
  const SmallestChange change{.kind = SmallestChange::Kind::HigherLimit,
                              .amount = breach.needed - breach.limit};
  return Verdict{.answer = answer,
                 .cause = breach.is_quota ? Cause::Quota : Cause::Limit,
                 .needed = breach.needed,
                 .available = breach.limit,
                 .where = queues[breach.queue].spec.name,
                 .resource = resource_name(breach.resource),
                 .change = change};
}

struct Tightest {
  const PodGroup* group = nullptr;
  RoomMap::Largest largest;
  uint64_t anywhere = 0;
  Level level;
};

// The group that lacks most, judged alone; nothing if each fits by itself.
std::optional<Tightest> tightest_group(const JobShape& job, const Fleet& fleet) {
  const Topology& topology = fleet.topology();
  std::optional<Tightest> worst;
  for (const PodGroup& group : job.groups) {
    const RoomMap rooms(fleet, group.shape, nullptr);
    const Level level = levels_of(joint_closeness(job, group), topology, Level(0)).coarsest;
    const RoomMap::Largest largest = rooms.largest(topology, Topology::cluster(), level);
    if (largest.room >= group.pods) continue;
    if (worst && worst->group->pods - worst->largest.room >= group.pods - largest.room) continue;
    worst = Tightest{&group, largest, rooms.domain(Topology::cluster()), level};
  }
  return worst;
}

Verdict verdict_of(const Tightest& tightest, const JobShape& job, const Topology& topology) {
  Verdict verdict{.needed = tightest.group->pods,
                  .available = static_cast<int64_t>(tightest.largest.room),
                  .where = tightest.largest.name,
                  .resource = topology.level_name(tightest.level)};
  if (job.groups.size() == 1 && tightest.largest.room > 0)
    verdict.change = SmallestChange{.kind = SmallestChange::Kind::FewerPods,
                                    .amount = static_cast<int64_t>(tightest.largest.room)};
  return verdict;
}

bool is_enough_in_sum(const Resources& needed, const Fleet& fleet) {
  Resources free;
  for (size_t i = 0; i < fleet.topology().node_count(); ++i)
    if (fleet.is_up(i)) free += fleet.free(i);
  return needed.fits_in(free);
}

}  // namespace

std::optional<Verdict> verdict_when_empty(const Question& question, Fleet& empty,
                                          SearchBudget& budget) {
  const JobSpec& job = question.job;
  if (const auto breach =
          question.queues.breach_when_idle(question.leaf, job.shape.total(), job.is_preemptible))
    return verdict_of(*breach, question.queues, Answer::Never);
  if (const auto tightest = tightest_group(job.shape, empty)) {
    Verdict verdict = verdict_of(*tightest, job.shape, empty.topology());
    verdict.answer = Answer::Never;
    verdict.cause = tightest->anywhere == 0 ? Cause::NoSuchNode : Cause::TooLarge;
    return verdict;
  }
  if (job.shape.groups.size() == 1) return std::nullopt;  // like pods: the sum over nodes is exact
  const Fleet::Mark mark = empty.mark();
  const bool fits = Placer(empty, budget, nullptr).place(job.shape).has_value();
  empty.roll_back(mark);
  if (fits) return std::nullopt;
  return Verdict{.answer = Answer::Undecided, .cause = Cause::Search};
}

Verdict verdict_now(const Question& question, const Fleet& fleet) {
  const JobSpec& job = question.job;
  const Resources total = job.shape.total();
  if (const auto breach = question.queues.breach(question.leaf, total, job.is_preemptible))
    return verdict_of(*breach, question.queues, Answer::NotNow);
  if (const auto tightest = tightest_group(job.shape, fleet)) {
    Verdict verdict = verdict_of(*tightest, job.shape, fleet.topology());
    verdict.cause = is_enough_in_sum(total, fleet) ? Cause::Fragmented : Cause::Busy;
    return verdict;
  }
  return Verdict{.answer = Answer::Undecided, .cause = Cause::Search};
}

std::string Verdict::text() const {
  const std::string start = answer == Answer::Never ? "can never run: " : "waits: ";
  const std::string room =
      str("the largest ", resource, " (", where, ") holds ", available, " of ", needed, " pods");
  const auto limit_text = [this](const std::string& what) {
    return str(what, " of queue ", where, " is ", amount_text(available, resource), " ", resource,
               ", it needs ", amount_text(needed, resource));
  };
  switch (cause) {
    case Cause::Limit:
      return start + limit_text("the limit");
    case Cause::Quota:
      return start + limit_text("it cannot be preempted, so quota binds: that");
    case Cause::NoSuchNode:
      return start + "no node can take one of its pods";
    case Cause::TooLarge:
    case Cause::Busy:
      return start + room;
    case Cause::Fragmented:
      return start + "enough is free, but in pieces: " + room;
    case Cause::Reserved:
      return start + str("the room is kept for ", where);
    case Cause::Turn:
      return start + str("for its turn behind ", where);
    case Cause::Search:
      return "undecided: the search bound was met";
  }
  CHECK(false);
}

}  // namespace paceline::sched
