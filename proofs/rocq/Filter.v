(** The ledger's pure filter against a fully adaptive analyst.

    An analyst is a tree whose paths are all finite: stop, toss coins, or ask a question and go on as the reply
    suggests. How many questions are asked depends on the transcript, and has no bound in advance. The database
    decides from the history alone whether a question is charged and answered afresh, answered by an answer that
    was kept, or refused. A reply may be lost on its way: the answer is charged and kept, and the analyst sees
    nothing. *)

From Coq Require Import Reals Lra Lia List QArith Qreals FinFun.
From Sfumato Require Import Dist Privacy.
Import ListNotations.
Open Scope R_scope.

Section Interaction.
Context {Data Question Answer Coin : Type}.

Inductive reply := Shown (a : Answer) | Refused.

Inductive analyst :=
| Stop
| Toss (coins : law Coin) (next : Coin -> analyst)
| Ask (q : Question) (lost : bool) (next : option reply -> analyst).

(** What the ledger records, latest first. *)
Inductive entry := Tossed (c : Coin) | Charged (q : Question) (a : Answer) | Repeated (q : Question) | Denied (q : Question).
Definition history := list entry.

Inductive decision := Fresh | Kept (a : Answer) | Refuse.
Variable decide : history -> Question -> decision.

(** The law of a fresh answer may depend on everything before it. *)
Variable release : history -> Question -> Data -> law Answer.

(** A transcript: one step per coin or question. The rest follows from the analyst and the rule. *)
Inductive step := Side (c : Coin) | Answered (a : Answer) | Again | Denial.

Definition seen (lost : bool) (r : reply) : option reply := if lost then None else Some r.

Fixpoint run (s : analyst) (h : history) (D : Data) (t : list step) : R :=
  match s, t with
  | Stop, [] => 1
  | Toss coins next, Side c :: t => coins c * run (next c) (Tossed c :: h) D t
  | Ask q lost next, e :: t =>
      match decide h q, e with
      | Fresh, Answered a => release h q D a * run (next (seen lost (Shown a))) (Charged q a :: h) D t
      | Kept a, Again => run (next (seen lost (Shown a))) (Repeated q :: h) D t
      | Refuse, Denial => run (next (seen lost Refused)) (Denied q :: h) D t
      | _, _ => 0
      end
  | _, _ => 0
  end.

Lemma run_nonneg s : forall h D t, 0 <= run s h D t.
Proof.
  induction s as [|coins next IH|q lost next IH]; intros h D [|e t]; simpl; try lra.
  - destruct e; try lra. apply Rmult_le_pos; auto using mass_nonneg.
  - destruct (decide h q), e; try lra; auto. apply Rmult_le_pos; auto using mass_nonneg.
Qed.

(** The history at the end of a transcript, and the part of its mass that comes from coins. *)
Fixpoint final (s : analyst) (h : history) (t : list step) : history :=
  match s, t with
  | Toss coins next, Side c :: t => final (next c) (Tossed c :: h) t
  | Ask q lost next, e :: t =>
      match decide h q, e with
      | Fresh, Answered a => final (next (seen lost (Shown a))) (Charged q a :: h) t
      | Kept a, Again => final (next (seen lost (Shown a))) (Repeated q :: h) t
      | Refuse, Denial => final (next (seen lost Refused)) (Denied q :: h) t
      | _, _ => h
      end
  | _, _ => h
  end.

Fixpoint tossed (s : analyst) (h : history) (t : list step) : R :=
  match s, t with
  | Stop, [] => 1
  | Toss coins next, Side c :: t => coins c * tossed (next c) (Tossed c :: h) t
  | Ask q lost next, e :: t =>
      match decide h q, e with
      | Fresh, Answered a => tossed (next (seen lost (Shown a))) (Charged q a :: h) t
      | Kept a, Again => tossed (next (seen lost (Shown a))) (Repeated q :: h) t
      | Refuse, Denial => tossed (next (seen lost Refused)) (Denied q :: h) t
      | _, _ => 0
      end
  | _, _ => 0
  end.

Lemma tossed_nonneg s : forall h t, 0 <= tossed s h t.
Proof.
  induction s as [|coins next IH|q lost next IH]; intros h [|e t]; simpl; try lra.
  - destruct e; try lra. apply Rmult_le_pos; auto using mass_nonneg.
  - destruct (decide h q), e; try lra; auto.
Qed.

(** The likelihood of the answers of a history: only charged answers count. *)
Fixpoint likelihood (h : history) (D : Data) : R :=
  match h with
  | [] => 1
  | Charged q a :: h => release h q D a * likelihood h D
  | _ :: h => likelihood h D
  end.

Lemma likelihood_nonneg h D : 0 <= likelihood h D.
Proof.
  induction h as [|[c|q a|q|q] h IH]; simpl; try lra; auto. apply Rmult_le_pos; auto using mass_nonneg.
Qed.

(** Coins, kept answers and refusals have the same factor on every database. *)
Theorem transcript_factors s : forall h D t,
  run s h D t * likelihood h D = tossed s h t * likelihood (final s h t) D.
Proof.
  induction s as [|coins next IH|q lost next IH]; intros h D [|e t]; simpl; try lra.
  - destruct e; try lra. rewrite Rmult_assoc, (Rmult_assoc (coins c)).
    specialize (IH c (Tossed c :: h) D t). simpl in IH. rewrite IH. reflexivity.
  - destruct (decide h q) as [|a'|], e as [c|a| |]; try lra.
    + specialize (IH (seen lost (Shown a)) (Charged q a :: h) D t). simpl in IH. rewrite <- IH. ring.
    + specialize (IH (seen lost (Shown a')) (Repeated q :: h) D t). exact IH.
    + specialize (IH (seen lost Refused) (Denied q :: h) D t). exact IH.
Qed.

Corollary run_start s D t : run s [] D t = tossed s [] t * likelihood (final s [] t) D.
Proof. rewrite <- transcript_factors. simpl. lra. Qed.

(** So a bound on likelihoods of histories bounds transcripts. *)
Lemma transcripts_bounded s D D' B (good : history -> Prop) :
  (forall t, good (final s [] t)) ->
  (forall h, good h -> likelihood h D <= B * likelihood h D') ->
  forall t, run s [] D t <= B * run s [] D' t.
Proof.
  intros G H t. rewrite !run_start. specialize (H _ (G t)). pose proof (tossed_nonneg s [] t). nra.
Qed.

(** What holds of the empty history and survives each step holds at the end. *)
Lemma final_invariant (good : history -> Prop) :
  (forall h c, good h -> good (Tossed c :: h)) ->
  (forall h q a, good h -> decide h q = Fresh -> good (Charged q a :: h)) ->
  (forall h q a, good h -> decide h q = Kept a -> good (Repeated q :: h)) ->
  (forall h q, good h -> decide h q = Refuse -> good (Denied q :: h)) ->
  forall s h t, good h -> good (final s h t).
Proof.
  intros T C K R. induction s as [|coins next IH|q lost next IH]; intros h [|e t] G; simpl; auto.
  - destruct e; auto.
  - destruct (decide h q) eqn:E, e; eauto.
Qed.

(** *** The odometer: at every moment the loss is at most what was charged *)

Section Odometer.
Variables (D D' : Data) (ratio : Question -> R).
Hypothesis within : forall h q a, release h q D a <= ratio q * release h q D' a.

Fixpoint charged_ratio (h : history) : R :=
  match h with
  | [] => 1
  | Charged q _ :: h => ratio q * charged_ratio h
  | _ :: h => charged_ratio h
  end.

Lemma likelihood_ratio h : likelihood h D <= charged_ratio h * likelihood h D'.
Proof.
  induction h as [|[c|q a|q|q] h IH]; simpl; try lra.
  apply Rle_trans with (ratio q * release h q D' a * (charged_ratio h * likelihood h D')); [|lra].
  apply Rmult_le_compat; auto using mass_nonneg, likelihood_nonneg.
Qed.

Theorem odometer s t : run s [] D t <= charged_ratio (final s [] t) * run s [] D' t.
Proof.
  rewrite !run_start. pose proof (likelihood_ratio (final s [] t)). pose proof (tossed_nonneg s [] t). nra.
Qed.

Theorem ratio_filter B : 1 <= B ->
  (forall h q, charged_ratio h <= B -> decide h q = Fresh -> ratio q * charged_ratio h <= B) ->
  forall s t, run s [] D t <= B * run s [] D' t.
Proof.
  intros B1 H s t. apply Rle_trans with (1 := odometer s t).
  apply Rmult_le_compat_r; [apply run_nonneg|].
  apply (final_invariant (fun h => charged_ratio h <= B)); simpl; auto.
Qed.
End Odometer.

(** *** The law of a transcript is a law *)

Section Whole.
Hypotheses (EA : decidable_equality Answer) (EC : decidable_equality Coin).

Theorem transcripts_sum_to_one s : forall h D, total (run s h D) 1.
Proof.
  induction s as [|coins next IH|q lost next IH]; intros h D.
  - apply (total_inject (fun _ : unit => []) (fun t => match t with [] => Some tt | _ => None end) (fun _ => 1)).
    + intros []; reflexivity.
    + intros [|] []; simpl; congruence.
    + reflexivity.
    + intros [|]; simpl; congruence.
    + apply (total_finite_eq _ [tt]); try (intros; lra); [simpl; lra|repeat constructor; simpl; tauto| |decide equality].
      intros []; simpl; tauto.
  - set (K := fun c => {| mass := run (next c) (Tossed c :: h) D; mass_nonneg := run_nonneg _ _ _;
                          mass_total := IH c (Tossed c :: h) D |}).
    apply (total_inject (fun p => Side (fst p) :: snd p)
             (fun t => match t with Side c :: t => Some (c, t) | _ => None end) (joint EC coins K)); auto.
    + intros []; reflexivity.
    + intros [|[] ?] (?, ?); simpl; congruence.
    + intros [|[] ?]; simpl; congruence.
    + apply mass_total.
  - destruct (decide h q) as [|a|] eqn:E.
    + set (K := fun a => {| mass := run (next (seen lost (Shown a))) (Charged q a :: h) D;
                            mass_nonneg := run_nonneg _ _ _; mass_total := IH _ (Charged q a :: h) D |}).
      apply (total_inject (fun p => Answered (fst p) :: snd p)
               (fun t => match t with Answered a :: t => Some (a, t) | _ => None end)
               (joint EA (release h q D) K)).
      * intros []; reflexivity.
      * intros [|[] ?] (?, ?); simpl; congruence.
      * intros (a, t). simpl. rewrite E. reflexivity.
      * intros [|[] ?]; simpl; try rewrite E; congruence.
      * apply mass_total.
    + apply (total_inject (fun t => Again :: t) (fun t => match t with Again :: t => Some t | _ => None end)
               (run (next (seen lost (Shown a))) (Repeated q :: h) D)); auto.
      * intros [|[] ?] ?; simpl; congruence.
      * intros t. simpl. rewrite E. reflexivity.
      * intros [|[] ?]; simpl; try rewrite E; congruence.
    + apply (total_inject (fun t => Denial :: t) (fun t => match t with Denial :: t => Some t | _ => None end)
               (run (next (seen lost Refused)) (Denied q :: h) D)); auto.
      * intros [|[] ?] ?; simpl; congruence.
      * intros t. simpl. rewrite E. reflexivity.
      * intros [|[] ?]; simpl; try rewrite E; congruence.
Qed.

Definition transcript (s : analyst) (D : Data) : law (list step) :=
  {| mass := run s [] D; mass_nonneg := run_nonneg s [] D; mass_total := transcripts_sum_to_one s [] D |}.
End Whole.
End Interaction.

(** ** The rule of the ledger, executable: exact fractions *)

Open Scope Q_scope.
Definition accepts (budget spent cost : Q) : bool := Qle_bool (spent + cost) budget.

(** Which of a list of costs are accepted, one after the other. *)
Fixpoint decisions (budget spent : Q) (costs : list Q) : list bool :=
  match costs with
  | [] => []
  | cost :: costs =>
      if accepts budget spent cost then true :: decisions budget (Qred (spent + cost)) costs
      else false :: decisions budget spent costs
  end.
Open Scope R_scope.

Section PureFilter.
Context {Data Question Answer Coin : Type} (near : Data -> Data -> Prop).
Variables (release : Question -> Data -> law Answer) (cost : Question -> Q) (budget : Q).
Hypothesis budget_nonneg : (0 <= budget)%Q.

(** Each question satisfies what its cost says. *)
Hypothesis sound : forall q, private near (exp (Q2R (cost q))) (release q).

Local Notation entry := (@entry Question Answer Coin).

Fixpoint spent (h : list entry) : Q :=
  match h with
  | [] => 0
  | Charged q _ :: h => spent h + cost q
  | _ :: h => spent h
  end.

(** A kept answer is any function of the history: a retry, the same question in another spelling, a view. *)
Variable kept : list entry -> Question -> option Answer.

Definition filter_rule (h : list entry) (q : Question) : decision :=
  match kept h q with
  | Some a => Kept a
  | None => if accepts budget (spent h) (cost q) then Fresh else Refuse
  end.

Lemma charged_exp h : charged_ratio (fun q => exp (Q2R (cost q))) h = exp (Q2R (spent h)).
Proof.
  induction h as [|[c|q a|q|q] h IH]; simpl; auto.
  - unfold Q2R. simpl. rewrite Rmult_0_l, exp_0. reflexivity.
  - rewrite Q2R_plus, exp_plus, IH. ring.
Qed.

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros [H| ->]; [left; apply exp_increasing; auto|right; reflexivity]. Qed.

(** Theorem. Whatever the analysts ask, in whatever order, with whatever coins, lost replies and retries, and
    whenever they stop: the whole transcript is budget-private. *)
Theorem pure_filter_adaptive (EA : decidable_equality Answer) (EC : decidable_equality Coin) s :
  private near (exp (Q2R budget)) (transcript filter_rule (fun _ => release) EA EC s).
Proof.
  intros D D' N t. simpl.
  apply (ratio_filter _ _ D D' (fun q => exp (Q2R (cost q)))).
  - intros _ q a. apply sound; auto.
  - rewrite <- exp_0. apply exp_le. apply Qle_Rle in budget_nonneg. unfold Q2R in budget_nonneg at 1.
    simpl in budget_nonneg. lra.
  - intros h q _ Hd. unfold filter_rule in Hd. destruct (kept h q); [discriminate|].
    destruct (accepts budget (spent h) (cost q)) eqn:E; [|discriminate].
    rewrite charged_exp, <- exp_plus. apply exp_le. rewrite <- Q2R_plus. apply Qle_Rle.
    apply Qle_bool_iff in E. rewrite Qplus_comm. exact E.
Qed.

(** Refusals and kept answers leave the ledger's sum as it was. *)
Theorem kept_answers_add_nothing s (D D' : Data) : near D D' -> forall t,
  run filter_rule (fun _ => release) s [] D t <=
    exp (Q2R (spent (final filter_rule s [] t))) * run filter_rule (fun _ => release) s [] D' t.
Proof.
  intros N t. rewrite <- charged_exp. apply odometer.
  intros _ q a. apply sound; auto.
Qed.
End PureFilter.

(** Retries: if the answer to a charged question is kept, no question is ever charged twice. *)
Section Retries.
Context {Question Answer Coin : Type} (EQ : decidable_equality Question).
Variables (cost : Question -> Q) (budget : Q).
Local Notation entry := (@entry Question Answer Coin).

Fixpoint stored (h : list entry) (q : Question) : option Answer :=
  match h with
  | [] => None
  | Charged q' a :: h => if EQ q q' then Some a else stored h q
  | _ :: h => stored h q
  end.

Fixpoint charges (h : list entry) : list Question :=
  match h with
  | [] => []
  | Charged q _ :: h => q :: charges h
  | _ :: h => charges h
  end.

Lemma stored_charged h q : stored h q = None -> ~ In q (charges h).
Proof.
  induction h as [|[c|q' a|q'|q'] h IH]; simpl; auto.
  destruct (EQ q q'); [discriminate|]. intros E [<-|H]; auto. exact (IH E H).
Qed.

Theorem retries_are_free s t :
  NoDup (charges (final (filter_rule cost budget stored) s [] t)).
Proof.
  apply (final_invariant _ (fun h => NoDup (charges h))); simpl; auto; [|constructor].
  intros h q a N E. constructor; auto. apply stored_charged.
  unfold filter_rule in E. destruct (stored h q); [discriminate|reflexivity].
Qed.
End Retries.
