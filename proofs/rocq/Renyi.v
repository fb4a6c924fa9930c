(** The whole rule of the ledger: deltas within their cap, and pure losses or Rényi losses within theirs.

    The order is alpha = k + 1, an integer that is fixed in advance. Which of the two branches a transcript ends in is
    decided by what the analysts ask. *)

From Coq Require Import Reals Lra Lia List QArith Qreals Bool.
From Sfumato Require Import Dist Privacy Approximate Filter DeltaFilter.
Import ListNotations.
Open Scope R_scope.

(** ** Sums that stay below a bound *)

Definition bounded {A} (f : A -> R) (b : R) : Prop := forall l, NoDup l -> sum f l <= b.

Lemma bounded_inject {A B} (h : A -> B) (back : B -> option A) (f : A -> R) (g : B -> R) b :
  (forall x a, back x = Some a -> h a = x) -> (forall a, g (h a) = f a) -> (forall x, back x = None -> g x = 0) ->
  bounded f b -> bounded g b.
Proof.
  intros HB G Z F l N.
  assert (E : exists m, NoDup m /\ sum g l = sum f m /\ forall a, In a m -> In (h a) l).
  { clear F. induction N as [|x l Hx N (m & M & E & I)]; [exists []; repeat split; try constructor; simpl; tauto|].
    destruct (back x) as [a|] eqn:Ex.
    - exists (a :: m). rewrite <- (HB _ _ Ex) in *. simpl. rewrite G, E. repeat split; auto.
      + constructor; auto.
      + intros y [->|Hy]; auto.
    - exists m. simpl. rewrite (Z x Ex), E. repeat split; auto; lra. }
  destruct E as (m & M & -> & _). apply F; auto.
Qed.

Lemma bounded_pairs {A B} (EA : decidable_equality A) (f : A -> B -> R) (c : A -> R) b :
  (forall a, bounded (f a) (c a)) -> bounded c b -> bounded (fun p => f (fst p) (snd p)) b.
Proof.
  intros F C l N. rewrite (sum_by_first EA).
  apply Rle_trans with (sum c (firsts EA l)); [|apply C, NoDup_nodup].
  apply sum_le. intros a _. apply F, NoDup_beside; auto.
Qed.

(** ** Supermartingales over transcripts *)

Section Supermartingale.
Context {Question Answer Coin : Type} (EA : decidable_equality Answer) (EC : decidable_equality Coin).
Local Notation entry := (@entry Question Answer Coin).
Variables (decide : list entry -> Question -> @decision Answer) (V : list entry -> R).
Hypotheses (V_nonneg : forall h, 0 <= V h)
  (V_toss : forall c h, V (Tossed c :: h) = V h) (V_kept : forall q h, V (Repeated q :: h) = V h)
  (V_denied : forall q h, V (Denied q :: h) = V h).
Hypothesis V_fresh : forall h q, bounded (fun a => V (Charged q a :: h)) (V h).

Theorem supermartingale s : forall h, bounded (fun t => tossed decide s h t * V (final decide s h t)) (V h).
Proof.
  induction s as [|coins next IH|q lost next IH]; intros h.
  - apply (bounded_inject (fun _ : unit => []) (fun t => match t with [] => Some tt | _ => None end) (fun _ => V h)).
    + intros [|] []; simpl; congruence.
    + intros _. simpl. ring.
    + intros [|]; simpl; [congruence|]. intros _. ring.
    + intros l N. rewrite sum_const. specialize (V_nonneg h).
      assert (L : (length l <= 1)%nat).
      { destruct N as [|[] l Hx N]; simpl; auto. destruct l as [|[] l]; simpl; auto. exfalso. apply Hx. simpl. auto. }
      destruct l as [|u [|v l]]; simpl in *; try lra. lia.
  - apply (bounded_inject (fun p => Side (fst p) :: snd p) (fun t => match t with Side c :: t => Some (c, t) | _ => None end)
      (fun p => coins (fst p) * (tossed decide (next (fst p)) (Tossed (fst p) :: h) (snd p) * V (final decide (next (fst p)) (Tossed (fst p) :: h) (snd p))))).
    + intros [|[] ?] (?, ?); simpl; congruence.
    + intros (c, t). simpl. ring.
    + intros [|[] ?]; simpl; try congruence; intros _; ring.
    + apply (bounded_pairs EC (fun c t => coins c * (tossed decide (next c) (Tossed c :: h) t * V (final decide (next c) (Tossed c :: h) t)))
               (fun c => coins c * V h)).
      * intros c l N. rewrite sum_scale. apply Rmult_le_compat_l; [apply mass_nonneg|].
        rewrite <- (V_toss c h). apply IH; auto.
      * intros l N. rewrite sum_scale_r. pose proof (mass_sum coins l N). specialize (V_nonneg h). nra.
  - destruct (decide h q) as [|a|] eqn:E.
    + apply (bounded_inject (fun p => Answered (fst p) :: snd p)
               (fun t => match t with Answered a :: t => Some (a, t) | _ => None end)
        (fun p => tossed decide (next (seen lost (Shown (fst p)))) (Charged q (fst p) :: h) (snd p)
                  * V (final decide (next (seen lost (Shown (fst p)))) (Charged q (fst p) :: h) (snd p)))).
      * intros [|[] ?] (?, ?); simpl; congruence.
      * intros (a, t). simpl. rewrite E. reflexivity.
      * intros [|[] ?]; simpl; try rewrite E; try congruence; intros _; ring.
      * apply (bounded_pairs EA (fun a t => tossed decide (next (seen lost (Shown a))) (Charged q a :: h) t
                  * V (final decide (next (seen lost (Shown a))) (Charged q a :: h) t)) (fun a => V (Charged q a :: h))).
        -- intros a. apply IH.
        -- apply V_fresh.
    + apply (bounded_inject (fun t => Again :: t) (fun t => match t with Again :: t => Some t | _ => None end)
        (fun t => tossed decide (next (seen lost (Shown a))) (Repeated q :: h) t
                  * V (final decide (next (seen lost (Shown a))) (Repeated q :: h) t))).
      * intros [|[] ?] ?; simpl; congruence.
      * intros t. simpl. rewrite E. reflexivity.
      * intros [|[] ?]; simpl; try rewrite E; try congruence; intros _; ring.
      * rewrite <- (V_kept q h). apply IH.
    + apply (bounded_inject (fun t => Denial :: t) (fun t => match t with Denial :: t => Some t | _ => None end)
        (fun t => tossed decide (next (seen lost Refused)) (Denied q :: h) t
                  * V (final decide (next (seen lost Refused)) (Denied q :: h) t))).
      * intros [|[] ?] ?; simpl; congruence.
      * intros t. simpl. rewrite E. reflexivity.
      * intros [|[] ?]; simpl; try rewrite E; try congruence; intros _; ring.
      * rewrite <- (V_denied q h). apply IH.
Qed.
End Supermartingale.

(** ** One inequality *)

Lemma bernoulli n z : -1 <= z -> 1 + INR n * z <= (1 + z) ^ n.
Proof.
  intros Z. induction n as [|n IH]; [simpl; lra|]. rewrite S_INR. simpl.
  apply Rle_trans with ((1 + z) * (1 + INR n * z)); [|apply Rmult_le_compat_l; lra].
  pose proof (pos_INR n). assert (0 <= INR n * (z * z)) by (apply Rmult_le_pos; auto; nra). nra.
Qed.

Definition kappa (k : nat) : R := / INR (S k) * (INR k / INR (S k)) ^ k.

(** (x - c)+ <= kappa c^-k x^(k+1). *)
Theorem positive_part k x c : (0 < k)%nat -> 0 <= x -> 0 < c -> x - c <= kappa k * (/ c) ^ k * x ^ S k.
Proof.
  intros K X C. assert (Kp : 0 < INR k) by (apply lt_0_INR; auto).
  assert (Sp : INR (S k) = INR k + 1) by apply S_INR.
  set (y := x * INR k / (c * INR (S k))).
  assert (Y : 0 <= y).
  { unfold y. apply Rmult_le_pos; [nra|]. left. apply Rinv_0_lt_compat. nra. }
  assert (EX : x = c * (INR (S k) / INR k) * y) by (unfold y; field; lra).
  assert (B : 1 + INR (S k) * (y - 1) <= y ^ S k).
  { pose proof (bernoulli (S k) (y - 1) ltac:(lra)) as B. replace (1 + (y - 1)) with y in B by ring. exact B. }
  assert (E : kappa k * (/ c) ^ k * x ^ S k = c / INR k * y ^ S k).
  { set (u := INR (S k) / INR k) in *.
    assert (U : u <> 0).
    { unfold u, Rdiv. apply Rmult_integral_contrapositive. split; [lra|apply Rinv_neq_0_compat; lra]. }
    assert (F : (INR k / INR (S k)) ^ k = / u ^ k).
    { rewrite <- pow_inv. f_equal. unfold u. field. lra. }
    unfold kappa. rewrite F, pow_inv. rewrite EX at 1. rewrite !Rpow_mult_distr. cbn [pow].
    assert (u ^ k <> 0) by (apply pow_nonzero; auto). assert (c ^ k <> 0) by (apply pow_nonzero; lra).
    generalize dependent (u ^ k). generalize dependent (c ^ k). generalize (y ^ k).
    intros yk ck Hc uk F Hu. unfold u. field. repeat split; auto; lra. }
  rewrite E.
  assert (D : x - c = c / INR k * (1 + INR (S k) * (y - 1))).
  { rewrite EX at 1. rewrite Sp. field. lra. }
  rewrite D. apply Rmult_le_compat_l; auto. apply Rmult_le_pos; [lra|]. left. apply Rinv_0_lt_compat. auto.
Qed.

(** ** The rule, executable *)

Definition plus (x y : option Q) : option Q :=
  match x, y with Some x, Some y => Some (x + y)%Q | _, _ => None end.

Definition fits (epsilon : Q) (x : option Q) : bool := match x with Some x => Qle_bool x epsilon | None => false end.

(** Afterwards the deltas fit, and the pure losses or the moments do. An event without a pure loss has None. *)
Definition allows (epsilon most capacity : Q) (pure : option Q) (moments deltas : Q) (cost : option Q) (renyi delta : Q) : bool :=
  Qle_bool (deltas + delta) most && (fits epsilon (plus pure cost) || Qle_bool (moments + renyi) capacity).

(** Which of a list of events (pure loss, moment, delta) are accepted, one after the other. *)
Fixpoint ledger_decisions (epsilon most capacity : Q) (pure : option Q) (moments deltas : Q) (events : list (option Q * Q * Q)) : list bool :=
  match events with
  | [] => []
  | (cost, renyi, delta) :: events =>
      if allows epsilon most capacity pure moments deltas cost renyi delta
      then true :: ledger_decisions epsilon most capacity (option_map Qred (plus pure cost)) (Qred (moments + renyi)) (Qred (deltas + delta)) events
      else false :: ledger_decisions epsilon most capacity pure moments deltas events
  end.

(** ** The theorem *)

Section Ledger.
Context {Data Question Answer Coin : Type}.
Variables (EA : decidable_equality Answer) (EC : decidable_equality Coin).
Local Notation entry := (@entry Question Answer Coin).
Local Notation history := (list entry).

Variables (release core : history -> Question -> Data -> law Answer) (D D' : Data).
Variables (cost : Question -> option Q) (renyi delta : Question -> Q).
Variables (epsilon most capacity : Q) (k : nat) (rest : R).
Hypotheses (epsilon_nonneg : (0 <= epsilon)%Q) (most_range : (0 <= most <= 1)%Q) (k_pos : (0 < k)%nat).
Hypothesis delta_range : forall q, (0 <= delta q <= 1)%Q.

(** What the meaning of an event provides, given the past: a share of mass 1 - delta on which the density [g] of one
    database against the other is bounded, by e^cost or in the moment of order alpha. *)
Variable g : history -> Question -> Answer -> R.
Hypothesis held : forall X h q a, (1 - Q2R (delta q)) * core h q X a <= release h q X a.
Hypothesis density : forall h q a, 0 <= g h q a /\ core h q D a = g h q a * core h q D' a.
Hypothesis pure_sound : forall h q c a, cost q = Some c -> core h q D a <= exp (Q2R c) * core h q D' a.
Hypothesis renyi_sound : forall h q, bounded (fun a => core h q D a * g h q a ^ k) (exp (INR k * Q2R (renyi q))).

(** The capacity: kappa e^((alpha - 1)(R - epsilon)) <= delta_R. *)
Hypothesis capacity_fits : kappa k * exp (INR k * (Q2R capacity - Q2R epsilon)) <= rest.

Fixpoint pure (h : history) : option Q :=
  match h with
  | [] => Some 0%Q
  | Charged q _ :: h => plus (pure h) (cost q)
  | _ :: h => pure h
  end.

Fixpoint moments (h : history) : Q :=
  match h with
  | [] => 0
  | Charged q _ :: h => moments h + renyi q
  | _ :: h => moments h
  end.

Variable kept : history -> Question -> option Answer.

Definition ledger_rule (h : history) (q : Question) : decision :=
  match kept h q with
  | Some a => Kept a
  | None => if allows epsilon most capacity (pure h) (moments h) (deltas delta h) (cost q) (renyi q) (delta q) then Fresh else Refuse
  end.

Lemma final_fits s t : let h := final ledger_rule s [] t in
  (deltas delta h <= most)%Q /\ (fits epsilon (pure h) = true \/ (moments h <= capacity)%Q).
Proof.
  apply (final_invariant ledger_rule (fun h => (deltas delta h <= most)%Q /\ (fits epsilon (pure h) = true \/ (moments h <= capacity)%Q)));
    cbn [deltas pure moments]; auto.
  - intros h q a _ E. unfold ledger_rule in E. destruct (kept h q); [discriminate|].
    destruct (allows _ _ _ _ _ _ _ _ _) eqn:B; [|discriminate]. apply andb_prop in B as [B1 B2]. split; [apply Qle_bool_iff; auto|].
    apply orb_prop in B2 as [B2|B2]; [left; auto|right; apply Qle_bool_iff; auto].
  - split; [apply most_range|]. left. simpl. apply Qle_bool_iff. exact epsilon_nonneg.
Qed.

(** The density of a history, and what is multiplied along a transcript. *)
Fixpoint grown (h : history) : R :=
  match h with
  | [] => 1
  | Charged q a :: h => g h q a * grown h
  | _ :: h => grown h
  end.

Lemma grown_nonneg h : 0 <= grown h.
Proof. induction h as [|[c|q a|q|q] h IH]; simpl; try lra; auto. apply Rmult_le_pos; auto. apply density. Qed.

Lemma grown_ok h : likelihood core h D = grown h * likelihood core h D'.
Proof.
  induction h as [|[c|q a|q|q] h IH]; simpl; try lra. destruct (density h q a) as [_ E]. rewrite E, IH. ring.
Qed.

Definition V (h : history) : R := likelihood core h D * grown h ^ k * exp (- (INR k * Q2R (moments h))).

Lemma V_nonneg h : 0 <= V h.
Proof.
  unfold V. apply Rmult_le_pos; [|left; apply exp_pos]. apply Rmult_le_pos; [apply likelihood_nonneg|apply pow_le, grown_nonneg].
Qed.

Lemma V_fresh h q : bounded (fun a => V (Charged q a :: h)) (V h).
Proof.
  intros l N.
  rewrite (sum_ext _ (fun a => V h * exp (- (INR k * Q2R (renyi q))) * (core h q D a * g h q a ^ k))).
  - rewrite sum_scale. pose proof (renyi_sound h q l N) as S. pose proof (V_nonneg h). pose proof (exp_pos (- (INR k * Q2R (renyi q)))).
    apply Rle_trans with (V h * exp (- (INR k * Q2R (renyi q))) * exp (INR k * Q2R (renyi q))).
    + apply Rmult_le_compat_l; auto. apply Rmult_le_pos; auto. lra.
    + rewrite Rmult_assoc, <- exp_plus, Rplus_opp_l, exp_0. lra.
  - intros a _. unfold V. cbn [likelihood grown moments]. rewrite Rpow_mult_distr, Q2R_plus, Rmult_plus_distr_l, Ropp_plus_distr, exp_plus. ring.
Qed.

(** Theorem (odometer). Let [bad] be transcripts whose loss exceeds the sum of moments by ln(1/share)/(alpha - 1) or more:
    the density, to the power alpha - 1, is at least e^((alpha - 1) S_R)/share. Their mass is at most [share], for every rule
    and every analyst. An analyst may stop as soon as this happens, so it holds at all times at once. *)
Theorem moment_odometer decide s share bad : 0 <= share -> NoDup bad ->
  (forall t, In t bad -> let h := final decide s [] t in exp (INR k * Q2R (moments h)) <= share * grown h ^ k) ->
  sum (run decide core s [] D) bad <= share.
Proof.
  intros P N B.
  apply Rle_trans with (share * sum (fun t => tossed decide s [] t * V (final decide s [] t)) bad).
  - rewrite <- sum_scale. apply sum_le. intros t Ht. rewrite run_start. specialize (B t Ht). cbv zeta in B.
    set (h := final decide s [] t) in *. pose proof (tossed_nonneg decide s [] t) as T. set (m := tossed decide s [] t) in *.
    pose proof (likelihood_nonneg core h D) as L. unfold V.
    set (x := INR k * Q2R (moments h)) in *. pose proof (exp_pos (- x)).
    assert (E : exp x * exp (- x) = 1) by (rewrite <- exp_plus, Rplus_opp_r, exp_0; reflexivity).
    apply (Rmult_le_compat_r (exp (- x))) in B; [|lra]. rewrite E in B.
    replace (share * (m * (likelihood core h D * grown h ^ k * exp (- x)))) with (m * likelihood core h D * (share * grown h ^ k * exp (- x))) by ring.
    rewrite <- (Rmult_1_r (m * likelihood core h D)) at 1. apply Rmult_le_compat_l; auto. apply Rmult_le_pos; auto.
  - assert (S : sum (fun t => tossed decide s [] t * V (final decide s [] t)) bad <= V []).
    { apply (supermartingale EA EC decide V V_nonneg); auto using V_fresh. }
    assert (V [] = 1) by (unfold V; simpl; unfold Q2R; simpl; rewrite Rmult_0_l, Rmult_0_r, Ropp_0, exp_0, pow1; ring).
    rewrite H in S. nra.
Qed.

Lemma pure_ratio h x : pure h = Some x -> likelihood core h D <= exp (Q2R x) * likelihood core h D'.
Proof.
  revert x. induction h as [|[c|q a|q|q] h IH]; cbn [pure likelihood]; auto.
  - intros x [= <-]. unfold Q2R. simpl. rewrite Rmult_0_l, exp_0. lra.
  - intros x. destruct (pure h) as [y|]; [|discriminate]. destruct (cost q) as [c|] eqn:Ec; [|discriminate].
    intros [= <-]. specialize (IH y eq_refl). rewrite Q2R_plus, exp_plus.
    replace (exp (Q2R y) * exp (Q2R c) * (core h q D' a * likelihood core h D'))
      with (exp (Q2R c) * core h q D' a * (exp (Q2R y) * likelihood core h D')) by ring.
    apply Rmult_le_compat; auto using mass_nonneg, likelihood_nonneg.
Qed.

(** The hockey-stick sum of the cores: each transcript is pure, or pays from its moment. *)
Lemma core_within s : within (exp (Q2R epsilon)) rest (run ledger_rule core s [] D) (run ledger_rule core s [] D').
Proof.
  apply within_iff_hockey_stick. intros l N.
  set (c := exp (Q2R epsilon)). assert (Cp : 0 < c) by apply exp_pos.
  set (w := kappa k * exp (INR k * (Q2R capacity - Q2R epsilon))) in *.
  assert (Kk : 0 <= kappa k).
  { unfold kappa. apply Rmult_le_pos; [left; apply Rinv_0_lt_compat, lt_0_INR; lia|]. apply pow_le.
    apply Rmult_le_pos; [apply pos_INR|]. left. apply Rinv_0_lt_compat, lt_0_INR. lia. }
  assert (W0 : 0 <= w) by (apply Rmult_le_pos; [auto|left; apply exp_pos]).
  apply Rle_trans with (w * sum (fun t => tossed ledger_rule s [] t * V (final ledger_rule s [] t)) l).
  - rewrite <- sum_scale. apply sum_le. intros t _. rewrite !run_start.
    destruct (final_fits s t) as [_ F]. set (h := final ledger_rule s [] t) in *.
    pose proof (tossed_nonneg ledger_rule s [] t) as T. set (m := tossed ledger_rule s [] t) in *.
    pose proof (V_nonneg h) as Vp. pose proof (likelihood_nonneg core h D') as L'. pose proof (grown_nonneg h) as G.
    assert (R0 : 0 <= w * (m * V h)) by (apply Rmult_le_pos; auto; apply Rmult_le_pos; auto).
    apply Rmax_lub; auto. destruct F as [F|F].
    + unfold fits in F. destruct (pure h) as [x|] eqn:E; [|discriminate]. apply Qle_bool_iff in F. apply Qle_Rle in F.
      pose proof (pure_ratio h x E) as P. assert (exp (Q2R x) <= c) by (apply exp_le; auto).
      assert (likelihood core h D <= c * likelihood core h D') by nra.
      assert (m * likelihood core h D <= m * (c * likelihood core h D')) by (apply Rmult_le_compat_l; auto). lra.
    + apply Qle_Rle in F.
      pose proof (positive_part k (grown h) c k_pos G Cp) as I.
      replace (m * likelihood core h D - c * (m * likelihood core h D')) with (m * likelihood core h D' * (grown h - c))
        by (rewrite grown_ok; ring).
      apply Rle_trans with (m * likelihood core h D' * (kappa k * (/ c) ^ k * grown h ^ S k)).
      { apply Rmult_le_compat_l; auto. apply Rmult_le_pos; auto. }
      assert (Ec : (/ c) ^ k = exp (- (INR k * Q2R epsilon))).
      { unfold c. rewrite <- exp_Ropp. clear. induction k as [|n IH]; [simpl; rewrite Rmult_0_l, Ropp_0, exp_0; reflexivity|].
        rewrite S_INR. simpl. rewrite IH, <- exp_plus. f_equal. ring. }
      assert (Ev : w * (m * V h) = m * likelihood core h D' * (kappa k * (exp (- (INR k * Q2R epsilon)) * grown h ^ S k))
                    * exp (INR k * (Q2R capacity - Q2R (moments h)))).
      { unfold w, V. rewrite grown_ok. simpl pow.
        replace (INR k * (Q2R capacity - Q2R epsilon)) with (INR k * Q2R capacity + - (INR k * Q2R epsilon)) by ring.
        replace (INR k * (Q2R capacity - Q2R (moments h))) with (INR k * Q2R capacity + - (INR k * Q2R (moments h))) by ring.
        rewrite !exp_plus. ring. }
      rewrite Ev, Ec, Rmult_assoc.
      assert (1 <= exp (INR k * (Q2R capacity - Q2R (moments h)))).
      { rewrite <- exp_0. apply exp_le. apply Rmult_le_pos; [apply pos_INR|lra]. }
      set (Z := m * likelihood core h D' * (kappa k * (exp (- (INR k * Q2R epsilon)) * grown h ^ S k))).
      assert (0 <= Z).
      { unfold Z. apply Rmult_le_pos; [apply Rmult_le_pos; auto|]. apply Rmult_le_pos; auto.
        apply Rmult_le_pos; [left; apply exp_pos|apply pow_le; auto]. }
      apply Rle_trans with (Z * 1); [unfold Z; right; ring|]. apply Rmult_le_compat_l; auto.
  - assert (S : sum (fun t => tossed ledger_rule s [] t * V (final ledger_rule s [] t)) l <= V []).
    { apply (supermartingale EA EC ledger_rule V V_nonneg); auto using V_fresh. }
    assert (V [] = 1) by (unfold V; simpl; unfold Q2R; simpl; rewrite Rmult_0_l, Rmult_0_r, Ropp_0, exp_0, pow1; ring).
    rewrite H in S. apply Rle_trans with (w * 1); [apply Rmult_le_compat_l; auto|]. lra.
Qed.

(** Theorem. For every adaptive analyst the whole transcript is within (e^epsilon, delta_A + delta_R). *)
Theorem ledger_filter_adaptive s :
  within (exp (Q2R epsilon)) (Q2R most + rest) (transcript ledger_rule release EA EC s D) (transcript ledger_rule release EA EC s D').
Proof.
  intros l N. pose proof (Q2R_range _ most_range) as M.
  assert (ES : decidable_equality (@step Answer Coin)) by (unfold decidable_equality in *; decide equality).
  assert (H : forall X t, (1 - Q2R most) * transcript ledger_rule core EA EC s X t <= transcript ledger_rule release EA EC s X t).
  { intros X t. simpl. rewrite !run_start. destruct (final_fits s t) as [W _]. apply Qle_Rle in W.
    pose proof (tossed_nonneg ledger_rule s [] t) as T. set (h := final ledger_rule s [] t) in *.
    pose proof (likelihood_held release core delta delta_range held X h ltac:(lra)). pose proof (likelihood_nonneg core h X).
    apply Rle_trans with (tossed ledger_rule s [] t * ((1 - Q2R (deltas delta h)) * likelihood core h X)).
    - replace ((1 - Q2R most) * (tossed ledger_rule s [] t * likelihood core h X))
        with (tossed ledger_rule s [] t * ((1 - Q2R most) * likelihood core h X)) by ring.
      apply Rmult_le_compat_l; auto. apply Rmult_le_compat_r; auto. lra.
    - apply Rmult_le_compat_l; auto. }
  pose proof (rest_of_part (list_eq_dec ES) (1 - Q2R most) _ _ l ltac:(lra) (H D) N) as P.
  pose proof (core_within s l N) as C.
  assert (Q : (1 - Q2R most) * sum (run ledger_rule core s [] D') l <= sum (transcript ledger_rule release EA EC s D') l).
  { rewrite <- sum_scale. apply sum_le. intros t _. apply (H D' t). }
  simpl in P, Q |- *. pose proof (exp_pos (Q2R epsilon)).
  assert (R0 : 0 <= rest).
  { apply Rle_trans with (2 := capacity_fits). apply Rmult_le_pos; [|left; apply exp_pos].
    unfold kappa. apply Rmult_le_pos; [left; apply Rinv_0_lt_compat, lt_0_INR; lia|]. apply pow_le.
    apply Rmult_le_pos; [apply pos_INR|]. left. apply Rinv_0_lt_compat, lt_0_INR. lia. }
  set (p := sum (run ledger_rule core s [] D) l) in *. set (r := sum (run ledger_rule core s [] D') l) in *.
  set (e := exp (Q2R epsilon)) in *.
  assert (A : (1 - Q2R most) * p <= (1 - Q2R most) * (e * r + rest)) by (apply Rmult_le_compat_l; lra).
  assert (B : e * ((1 - Q2R most) * r) <= e * sum (run ledger_rule release s [] D') l) by (apply Rmult_le_compat_l; lra).
  nra.
Qed.
End Ledger.
