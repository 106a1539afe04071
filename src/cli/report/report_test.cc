// Goal: the report says what happened, in the fields that programs rely on.
// Method: a made-up run, told as events, read back as JSON.
#include "cli/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/report/throughput.h"

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

Instant at_ms(int64_t ms) { return Instant::from_nanoseconds(1'000'000'000 + ms * 1'000'000); }

constexpr RankId kVictim{SlotId(3), Incarnation(1)};

TurnCommitted turn_at(uint64_t turn, uint64_t step, int64_t ms) {
  TurnCommitted committed;
  committed.turn = Turn(turn);
  committed.step = Step(step);
  committed.at = at_ms(ms);
  committed.micro_batches = 16;
  return committed;
}

Incident crash_at(uint32_t id, int64_t detected_ms, int64_t recovered_ms) {
  Incident incident;
  incident.id = id;
  incident.kind = IncidentKind::Crash;
  incident.rank = kVictim;
  incident.host = HostId(3);
  incident.detected = at_ms(detected_ms);
  incident.aborted = at_ms(detected_ms + 20);
  incident.recovered = at_ms(recovered_ms);
  incident.micro_batches_redone = 4;
  incident.step = Step(2);
  incident.evidence = "death bell of rank 3";
  incident.action = ActionKind::SwapSpare;
  incident.reason = "a spare is ready";
  Alternative alternative;
  alternative.action = ActionKind::Shrink;
  alternative.cost_rank_ms = 2500;
  incident.alternatives.push_back(alternative);
  return incident;
}

// Four ranks; a measuring round, then steps every 100 ms but for one of 400 ms with a crash in it.
RunRecord crashed_run() {
  RunRecord record("gpt", at_ms(0));
  record.take(at_ms(10), JobStarted{.hosts = 4, .ranks = 4, .spares = 1, .micro_batches = 16});
  RankPlaced placed;
  placed.rank = kVictim;
  placed.host = HostId(3);
  placed.host_name = "host3";
  record.take(at_ms(11), placed);
  TurnCommitted measuring = turn_at(0, 0, 1000);
  measuring.is_flagged = true;
  record.take(at_ms(1000), measuring);
  record.take(at_ms(1100), turn_at(1, 0, 1100));
  record.take(at_ms(1200), turn_at(2, 1, 1200));
  InjectedFault fault;
  fault.kind = "kill";
  fault.text = "kill@step=2:rank=3";
  fault.rank = kVictim;
  fault.host_name = "host3";
  fault.at = at_ms(1250);
  fault.step = Step(2);
  record.take(fault);
  record.take(at_ms(1260), IncidentChanged{crash_at(1, 1253, 1600)});
  record.take(at_ms(1600), turn_at(3, 2, 1600));
  record.take(at_ms(1700), turn_at(4, 3, 1700));
  Goodput goodput;
  goodput.wall = Duration::seconds(2);
  goodput.useful = Duration::seconds(6);
  goodput.repair = Duration::seconds(1);
  goodput.startup = Duration::seconds(1);
  record.take(at_ms(1750), goodput);
  RankMetric metric;
  metric.name = "loss";
  metric.step = Step(3);
  metric.value = 2.5;
  record.take(at_ms(1750), metric);
  JobEnded ended;
  ended.state_digest = 0xabc;
  ended.reason = "every rank has finished";
  record.take(at_ms(1800), ended);
  return record;
}

struct Field {
  const char* pointer;
  ordered_json::value_t type;
};

TEST(Report, ReportJson_EveryAgreedFieldIsThereWithItsType) {
  const ordered_json json = report_json(crashed_run());
  using Type = ordered_json::value_t;
  for (const Field& field : std::initializer_list<Field>{
           {"/version", Type::string},
           {"/job", Type::string},
           {"/verdict", Type::string},
           {"/exit_code", Type::number_integer},
           {"/world/hosts", Type::number_unsigned},
           {"/world/ranks", Type::number_unsigned},
           {"/world/spares", Type::number_unsigned},
           {"/world/spare_mode", Type::string},
           {"/world/micro_batches", Type::number_unsigned},
           {"/steps/committed", Type::number_unsigned},
           {"/steps/repeated", Type::number_unsigned},
           {"/samples/consumed", Type::number_unsigned},
           {"/samples/duplicated", Type::number_unsigned},
           {"/samples/skipped", Type::number_unsigned},
           {"/exact", Type::boolean},
           {"/state_digest", Type::string},
           {"/throughput/unit", Type::string},
           {"/throughput/mean", Type::number_float},
           {"/throughput/healthy_mean", Type::number_float},
           {"/goodput/wall_s", Type::number_float},
           {"/goodput/fraction", Type::number_float},
           {"/goodput/categories/useful", Type::number_float},
           {"/goodput/categories/empty_slot", Type::number_float},
           {"/incidents/0/id", Type::number_unsigned},
           {"/incidents/0/kind", Type::string},
           {"/incidents/0/rank", Type::number_unsigned},
           {"/incidents/0/host", Type::string},
           {"/incidents/0/injected_at_s", Type::number_float},
           {"/incidents/0/detected_at_s", Type::number_float},
           {"/incidents/0/recovered_at_s", Type::number_float},
           {"/incidents/0/detect_ms", Type::number_float},
           {"/incidents/0/abort_ms", Type::number_float},
           {"/incidents/0/recover_ms", Type::number_float},
           {"/incidents/0/micro_batches_redone", Type::number_unsigned},
           {"/incidents/0/evidence", Type::string},
           {"/incidents/0/action", Type::string},
           {"/incidents/0/reason", Type::string},
           {"/incidents/0/alternatives/0/action", Type::string},
           {"/incidents/0/alternatives/0/cost_rank_s", Type::number_float}}) {
    const ordered_json::json_pointer pointer(field.pointer);
    ASSERT_TRUE(json.contains(pointer)) << field.pointer;
    EXPECT_EQ(json.at(pointer).type(), field.type) << field.pointer;
  }
}

TEST(Report, SkippedMicroBatch_IsCountedAndTheRunIsNotExact) {
  RunRecord record = crashed_run();
  TurnCommitted turn = turn_at(5, 4, 1800);
  turn.micro_batches = 15;
  turn.skipped = 1;
  record.take(at_ms(1800), turn);
  record.take(at_ms(1801), turn);  // told again by a restarted controller
  const ordered_json json = report_json(record);
  EXPECT_EQ(json["samples"]["consumed"], 79);
  EXPECT_EQ(json["samples"]["duplicated"], 0);
  EXPECT_EQ(json["samples"]["skipped"], 1);
  EXPECT_EQ(json["exact"], false);
}

TEST(Report, ThreadsOfARankThatWasEnded_StandWithItsIncident) {
  RunRecord record = crashed_run();
  OutputLine line;
  line.rank = *record.incidents().begin()->second.rank;
  line.text = str(kEvidencePrefix, "thread 1 (gpt) state S");
  record.take(at_ms(1300), line);
  line.text = "its own words";
  record.take(at_ms(1300), line);
  const ordered_json json = report_json(record);
  EXPECT_EQ(json["incidents"][0]["threads"], ordered_json::array({"thread 1 (gpt) state S"}));
}

TEST(Report, ReportJson_NumbersAreThoseOfTheRun) {
  const ordered_json json = report_json(crashed_run());
  EXPECT_EQ(json["verdict"], "completed");
  EXPECT_EQ(json["state_digest"], "0000000000000abc");
  EXPECT_EQ(json["steps"]["committed"], 4);
  EXPECT_EQ(json["steps"]["measuring_rounds"], 1);
  EXPECT_EQ(json["samples"]["consumed"], 64);
  EXPECT_EQ(json["samples"]["duplicated"], 0);
  EXPECT_EQ(json["exact"], true);
  const ordered_json& incident = json["incidents"][0];
  EXPECT_EQ(incident["host"], "host3");
  EXPECT_NEAR(incident["injected_at_s"].get<double>(), 1.25, 1e-9);
  EXPECT_NEAR(incident["detect_ms"].get<double>(), 3, 1e-9);
  EXPECT_NEAR(incident["abort_ms"].get<double>(), 23, 1e-9);
  EXPECT_NEAR(incident["recover_ms"].get<double>(), 350, 1e-9);
  EXPECT_NEAR(json["goodput"]["fraction"].get<double>(), 0.75, 1e-9);
}

TEST(Report, ReportJson_NeverRecovered_HasNullInsteadOfATime) {
  RunRecord record("gpt", at_ms(0));
  Incident incident = crash_at(1, 100, 200);
  incident.recovered.reset();
  record.take(at_ms(100), IncidentChanged{incident});
  const ordered_json json = report_json(record);
  EXPECT_TRUE(json["incidents"][0]["recovered_at_s"].is_null());
  EXPECT_TRUE(json["incidents"][0]["recover_ms"].is_null());
  EXPECT_TRUE(json["incidents"][0]["injected_at_s"].is_null());
}

TEST(Report, RunRecord_RepeatedEvents_CountOnce) {
  RunRecord record = crashed_run();
  record.take(at_ms(1900), turn_at(4, 3, 1700));
  record.take(at_ms(1900), IncidentChanged{crash_at(1, 1253, 1600)});
  const ordered_json json = report_json(record);
  EXPECT_EQ(json["steps"]["committed"], 4);
  EXPECT_EQ(json["steps"]["repeated"], 0);
  EXPECT_EQ(json["incidents"].size(), 1u);
}

TEST(Report, RunRecord_LaterController_AdoptsWithTheFirstCommitThatItTells) {
  RunRecord record("job", at_ms(0));
  record.take_controller(at_ms(1));  // the first one: nothing to adopt
  record.take(at_ms(10), JobStarted{.hosts = 1, .ranks = 1, .spares = 0, .micro_batches = 1});
  record.take(at_ms(20), turn_at(1, 0, 20));
  record.take_controller(at_ms(100));
  record.take(at_ms(110), turn_at(2, 1, 90));  // told by the one before, read late
  record.take(at_ms(200), JobStarted{.hosts = 1, .ranks = 1, .spares = 0, .micro_batches = 1});
  record.take(at_ms(250), turn_at(3, 2, 120));
  record.take(at_ms(300), turn_at(4, 3, 300));
  ASSERT_EQ(record.later_controllers().size(), 1u);
  EXPECT_EQ(record.later_controllers()[0].started, at_ms(100));
  EXPECT_EQ(record.later_controllers()[0].adopted, at_ms(250));
}

TEST(Report, RunRecord_StepUnderALaterTurn_IsARepeatedStep) {
  RunRecord record("gpt", at_ms(0));
  record.take(at_ms(1), turn_at(1, 0, 1));
  record.take(at_ms(2), turn_at(2, 1, 2));
  record.take(at_ms(3), turn_at(3, 1, 3));
  EXPECT_EQ(record.steps_repeated(), 1u);
}

TEST(Report, RunRecord_TwoFaultsOfOneRank_AreMatchedInOrder) {
  RunRecord record("gpt", at_ms(0));
  for (const int64_t ms : {100, 500}) {
    InjectedFault fault;
    fault.kind = "kill";
    fault.rank = kVictim;
    fault.at = at_ms(ms);
    record.take(fault);
  }
  record.take(at_ms(110), IncidentChanged{crash_at(1, 110, 200)});
  record.take(at_ms(510), IncidentChanged{crash_at(2, 510, 600)});
  const auto matched = record.matched_faults();
  EXPECT_EQ(matched.at(1).at, at_ms(100));
  EXPECT_EQ(matched.at(2).at, at_ms(500));
}

// It is no incident; a rank's progress says when it strikes.
TEST(Report, RunRecord_KilledController_IsMatchedWithNothing) {
  RunRecord record("gpt", at_ms(0));
  InjectedFault fault;
  fault.kind = "kill-controller";
  fault.rank = kVictim;
  fault.at = at_ms(100);
  record.take(fault);
  record.take(at_ms(110), IncidentChanged{crash_at(1, 110, 200)});
  EXPECT_TRUE(record.matched_faults().empty());
}

TEST(Report, RunRecord_FaultOfAnotherIncarnation_IsNotMatched) {
  RunRecord record("gpt", at_ms(0));
  InjectedFault fault;
  fault.rank = RankId{SlotId(3), Incarnation(2)};
  fault.at = at_ms(100);
  record.take(fault);
  record.take(at_ms(110), IncidentChanged{crash_at(1, 110, 200)});
  EXPECT_TRUE(record.matched_faults().empty());
}

TEST(Report, RunRecord_LostHost_IsMatchedByName) {
  RunRecord record = crashed_run();
  InjectedFault fault;
  fault.kind = "lose-host";
  fault.is_whole_host = true;
  fault.host_name = "host3";
  fault.rank = RankId{SlotId(3), Incarnation(2)};
  fault.at = at_ms(1720);
  record.take(fault);
  Incident incident = crash_at(2, 1730, 1790);
  incident.kind = IncidentKind::HostLost;
  incident.rank.reset();
  record.take(at_ms(1730), IncidentChanged{incident});
  EXPECT_EQ(record.matched_faults().at(2).kind, "lose-host");
}

TEST(Report, Throughput_HealthyMean_LeavesIncidentsOut) {
  const Throughput throughput = throughput_of(crashed_run());
  EXPECT_NEAR(throughput.mean, 4 / 0.7, 1e-6);
  EXPECT_NEAR(throughput.healthy_mean, 10, 1e-6);
}

TEST(Throughput, SlicesShorterThanASlowStep_ShareIt) {
  const std::vector<RatePoint> rates = rates_of(crashed_run(), 14);  // of 50 ms
  ASSERT_EQ(rates.size(), 14u);
  for (size_t i = 0; i < rates.size(); ++i)
    EXPECT_NEAR(rates[i].steps_per_s, i < 4 || i >= 12 ? 10 : 2.5, 1e-6) << i;
}

TEST(Report, StepsCsv_HasOneLinePerTurn) {
  const std::string csv = steps_csv(crashed_run());
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
  EXPECT_NE(csv.find("3,2,0,1.600000,400.000,16,0,"), std::string::npos) << csv;
}

TEST(Report, ReportHtml_HostileText_CannotEndTheScript) {
  RunRecord record("</script><b>", at_ms(0));
  const std::string html = report_html(record);
  EXPECT_EQ(html.find("</script><b>"), std::string::npos);
  EXPECT_EQ(html.find("http://"), html.find("http://www.w3.org/2000/svg"));
  EXPECT_EQ(html.find("https://"), std::string::npos);
}

TEST(Report, WriteReport_ToANewDirectory_LeavesThreeFiles) {
  std::string directory = ::testing::TempDir() + "paceline_report_XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::filesystem::path target = std::filesystem::path(directory) / "new" / "report";
  ASSERT_TRUE(write_report(crashed_run(), target.string()).has_value());
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(target))
    files += entry.file_size() > 0 ? 1 : 0;
  EXPECT_EQ(files, 3u);
  // For a look at the page: keep it where the caller says.
  if (const char* keep = std::getenv("PACELINE_KEEP_REPORT")) {
    EXPECT_TRUE(write_report(crashed_run(), keep).has_value());
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace paceline::cli
