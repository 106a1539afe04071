# Weakened rules: what each changes in a copy of the cores, and what the search must then find.
#
#   mutant(NAME file "exact text" "replacement" "expected violation" flags...)
#
# See cmake/Mutant.cmake for the text and its replacement.

mutant(promise_ignored rank/rank_core.cc  # rule 9
  "if (!is_running() || epoch_.number == EpochNumber(0)) return;"
  "if (phase_ != Phase::Member || !is_open_ || epoch_.number == EpochNumber(0)) return;"
  "VIOLATION S3" --steps 1 --kills 1)

mutant(begin_after_promise rank/rank_core.cc  # rule 9
  "if (!is_running() || todo_.empty()) return std::nullopt;"
  "if (phase_ != Phase::Member || todo_.empty()) return std::nullopt;"
  "VIOLATION (L1|S2|CHECK)" --steps 1 --kills 1)

mutant(keep_assignment rank/rank_core.cc  # rule 18
  "todo_.clear();  // nothing of an older share that was not begun remains"
  ""
  "VIOLATION (L1|S2|CHECK)" --steps 1 --kills 1)

mutant(vote_without_every_sum rank/rank_core.cc  # rule 5
  "if (votes_.has_cast() || !holds_all_sums()) return;"
  "if (votes_.has_cast() || !buckets_.front().has_sum) return;"
  "VIOLATION (S2|CHECK)" --steps 1)

mutant(hop_before_the_last_is_heard rank/vote_exchange.cc  # rule 6; with three members each hop is a direct vote
  "while (sent_ < hops_ && sent_ <= merged_) {"
  "while (sent_ < hops_) {"
  "VIOLATION" --steps 1 --spare --kills 1)

mutant(held_without_step control/membership.cc  # rule 17
  "if (report.committed != target || is_held_void_) continue;"
  "if (is_held_void_) continue;"
  "VIOLATION (L1|S2|CHECK)" --steps 2 --kills 1)

mutant(survivors_of_base control/membership.cc  # rule 15
  "for (const Member& member : basis().members) {"
  "for (const Member& member : base_.members) {"
  "VIOLATION (S1|CHECK)" --steps 2 --plan 2 --kills 1)

mutant(joiner_counts control/membership.cc  # rule 15
  "if (report.committed == target) return true;"
  "if (report.committed <= target) return true;"
  "VIOLATION (S1|S5|CHECK)" --steps 2 --plan 3 --kills 1)

mutant(stale_report control/membership.cc  # rule 11
  "if (phase_ != Phase::Preparing || report.prepare != preparing_ || !targets_.contains(from))"
  "if (phase_ != Phase::Preparing || !targets_.contains(from))"
  "VIOLATION" --steps 1 --kills 2 --duplicates 1)

mutant(no_intersection control/membership.cc  # rule 13
  "if (!has_promised) {"
  "if (!has_promised && targets_.empty()) {"
  "VIOLATION (S1|CHECK)" --steps 2 --plan 2 --cuts 1)

mutant(stale_journal control/membership.cc  # rule 17
  "phase_ = Phase::Idle;\n  effects_.push_back(MembershipRecord(EpochDecided{base_}));"
  "phase_ = Phase::Idle;"
  "VIOLATION (S1|L1|CHECK)" --steps 2 --freezes 1 --crashes 1)

mutant(same_number control/membership.cc  # rule 1
  "preparing_ = take_number();"
  "preparing_ = planned_ ? planned_->number : take_number();"
  "VIOLATION" --steps 2 --plan 1 --kills 1)

mutant(votes_of_the_basis_only control/membership.cc  # rule 16; a bug once
  "report.epoch == voted_in;"
  "report.epoch == std::max(voted_in, basis().number);"
  "VIOLATION S1" --steps 2 --kills 2 --crashes 1)

mutant(reports_of_the_lost_count control/membership.cc  # rule 12
  "targets_.erase(rank);  // the number stays: who has reported has not moved since\n  reports_.erase(rank);"
  "targets_.erase(rank);"
  "VIOLATION" --steps 1 --kills 2)
