(** Cohorts with budgets of their own, and windows below a lifetime cap.

    A person's cohort is fixed when they first appear, whatever later snapshots say about them. A question names
    the cohorts that pay for it, and reads only rows of people of these cohorts. *)

From Coq Require Import Reals Lra Lia List QArith Qreals Bool.
From Sfumato Require Import Dist Privacy Filter.
Import ListNotations.
Open Scope R_scope.

Section Cohorts.
Context {Person Cohort Row Snapshot Question Answer Coin : Type}.
Variables (EP : decidable_equality Person) (EK : decidable_equality Cohort).

(** The kept cohort, and whose row a row is. A row also has columns, which may name another cohort. *)
Variables (home : Person -> Cohort) (owner : Row -> Person).

(** The rows of every snapshot, the later ones included. *)
Definition Database := Snapshot -> list Row.

Definition without (u : Person) (rows : list Row) : list Row :=
  filter (fun row => if EP (owner row) u then false else true) rows.

(** Neighbours differ in the rows of one person, in any snapshots, however that person moves. *)
Definition differ_in (u : Person) (D D' : Database) : Prop :=
  forall s, without u (D s) = without u (D' s).

Variables (paying : Question -> list Cohort) (snapshot : Question -> Snapshot) (cost : Question -> Q).

Definition pays (q : Question) (c : Cohort) : bool := if in_dec EK c (paying q) then true else false.

(** What a question reads: rows of people whose kept cohort pays. *)
Definition reads (q : Question) (D : Database) : list Row :=
  filter (fun row => pays q (home (owner row))) (D (snapshot q)).

(** The answer is a function of those rows. *)
Variable answer : Question -> list Row -> law Answer.
Definition release (q : Question) (D : Database) : law Answer := answer q (reads q D).

Hypothesis cost_nonneg : forall q, (0 <= cost q)%Q.
Hypothesis sound : forall q u D D', differ_in u D D' -> forall a,
  release q D a <= exp (Q2R (cost q)) * release q D' a.

Lemma reads_same q u D D' : differ_in u D D' -> pays q (home u) = false -> reads q D = reads q D'.
Proof.
  intros N P. unfold reads.
  assert (E : forall rows, filter (fun row => pays q (home (owner row))) rows =
                           filter (fun row => pays q (home (owner row))) (without u rows)).
  { induction rows as [|row rows IH]; simpl; auto. destruct (EP (owner row) u) as [H|H]; simpl; rewrite <- IH; auto.
    rewrite H, P. reflexivity. }
  rewrite E, (E (D' _)), (N (snapshot q)). reflexivity.
Qed.

Local Notation entry := (@entry Question Answer Coin).

(** One sum per cohort. *)
Fixpoint spent_by (c : Cohort) (h : list entry) : Q :=
  match h with
  | [] => 0
  | Charged q _ :: h => if pays q c then spent_by c h + cost q else spent_by c h
  | _ :: h => spent_by c h
  end.

Variables (budget : Cohort -> Q) (kept : list entry -> Question -> option Answer).
Hypothesis budget_nonneg : forall c, (0 <= budget c)%Q.

(** A question is accepted if it fits into every cohort that pays. *)
Definition cohort_rule (h : list entry) (q : Question) : decision :=
  match kept h q with
  | Some a => Kept a
  | None => if forallb (fun c => accepts (budget c) (spent_by c h) (cost q)) (paying q) then Fresh else Refuse
  end.

Lemma charged_by_cohort c h :
  charged_ratio (fun q => if pays q c then exp (Q2R (cost q)) else 1) h = exp (Q2R (spent_by c h)).
Proof.
  induction h as [|[x|q a|q|q] h IH]; simpl; auto.
  - unfold Q2R. simpl. rewrite Rmult_0_l, exp_0. reflexivity.
  - destruct (pays q c); [rewrite Q2R_plus, exp_plus|]; rewrite IH; ring.
Qed.

(** Theorem. Each person is protected by the budget of their own cohort, against all questions of all analysts,
    over all snapshots, also when the person moves. *)
Theorem cohorts_adaptive u D D' : differ_in u D D' -> forall s t,
  run cohort_rule (fun _ => release) s [] D t <=
    exp (Q2R (budget (home u))) * run cohort_rule (fun _ => release) s [] D' t.
Proof.
  intros N s t.
  apply (ratio_filter _ _ D D' (fun q => if pays q (home u) then exp (Q2R (cost q)) else 1)).
  - intros _ q a. destruct (pays q (home u)) eqn:E; [eapply sound; eauto|].
    unfold release. rewrite (reads_same q u D D' N E). lra.
  - rewrite <- exp_0. apply exp_le. specialize (budget_nonneg (home u)). apply Qle_Rle in budget_nonneg.
    unfold Q2R in budget_nonneg at 1. simpl in budget_nonneg. lra.
  - intros h q B Hd. unfold cohort_rule in Hd. destruct (kept h q); [discriminate|].
    destruct (forallb _ _) eqn:E; [|discriminate].
    destruct (pays q (home u)) eqn:P; [|lra].
    unfold pays in P. destruct (in_dec EK (home u) (paying q)) as [I|]; [|discriminate].
    rewrite forallb_forall in E. specialize (E _ I). apply Qle_bool_iff in E.
    rewrite charged_by_cohort, <- exp_plus. apply exp_le. rewrite <- Q2R_plus. apply Qle_Rle.
    rewrite Qplus_comm. exact E.
Qed.

(** Under the replace relation a person of one cohort may become a person of another: both budgets are lost. *)
Theorem cohorts_replace u v D D' D'' : differ_in u D D' -> differ_in v D' D'' -> forall s t,
  run cohort_rule (fun _ => release) s [] D t <=
    exp (Q2R (budget (home u) + budget (home v))) * run cohort_rule (fun _ => release) s [] D'' t.
Proof.
  intros N N' s t. rewrite Q2R_plus, exp_plus, Rmult_assoc.
  apply Rle_trans with (1 := cohorts_adaptive u D D' N s t).
  apply Rmult_le_compat_l; [left; apply exp_pos|]. apply cohorts_adaptive; auto.
Qed.
End Cohorts.

(** A checked counterexample: a question that reads by the current column instead of the kept cohort. One person
    of cohort [true] now has [false] in that column; the question is paid for by [false] alone, and the set that
    it reads changes. *)
Section Counterexample.
Let owner (row : bool * bool) : bool := fst row.
Let column (row : bool * bool) : bool := snd row.
Let home (person : bool) : bool := person.

Theorem reading_by_column_leaks :
  exists (u : bool) (rows rows' : list (bool * bool)) (payer : bool),
    without Bool.bool_dec owner u rows = without Bool.bool_dec owner u rows' /\ payer <> home u /\
    filter (fun row => Bool.eqb (column row) payer) rows <> filter (fun row => Bool.eqb (column row) payer) rows' /\
    filter (fun row => Bool.eqb (home (owner row)) payer) rows = filter (fun row => Bool.eqb (home (owner row)) payer) rows'.
Proof. exists true, [(true, false)], [], false. repeat split; discriminate. Qed.
End Counterexample.

(** ** Windows: a cap that renews, below a lifetime cap *)

Section Windows.
Context {Data Question Answer Coin : Type} (near : Data -> Data -> Prop).
Variables (release : Question -> Data -> law Answer) (cost : Question -> Q) (lifetime : Q).
Hypothesis lifetime_nonneg : (0 <= lifetime)%Q.
Hypothesis sound : forall q, private near (exp (Q2R (cost q))) (release q).

(** The window and the analyst of a question, and a cap for each analyst in each window. *)
Context {Window Analyst : Type} (EW : decidable_equality Window) (EN : decidable_equality Analyst).
Variables (window : Question -> Window) (asker : Question -> Analyst) (cap : Analyst -> Q).

Local Notation entry := (@entry Question Answer Coin).

Fixpoint spent_in (w : Window) (n : Analyst) (h : list entry) : Q :=
  match h with
  | [] => 0
  | Charged q _ :: h =>
      if EW (window q) w then if EN (asker q) n then spent_in w n h + cost q else spent_in w n h else spent_in w n h
  | _ :: h => spent_in w n h
  end.

Variable kept : list entry -> Question -> option Answer.

Definition window_rule (h : list entry) (q : Question) : decision :=
  match kept h q with
  | Some a => Kept a
  | None => if accepts (cap (asker q)) (spent_in (window q) (asker q) h) (cost q) && accepts lifetime (spent cost h) (cost q)
            then Fresh else Refuse
  end.

(** Theorem. Over all windows and analysts together the lifetime cap holds. *)
Theorem windows_below_a_lifetime_cap (EA : decidable_equality Answer) (EC : decidable_equality Coin) s :
  private near (exp (Q2R lifetime)) (transcript window_rule (fun _ => release) EA EC s).
Proof.
  intros D D' N t. simpl. apply (ratio_filter _ _ D D' (fun q => exp (Q2R (cost q)))).
  - intros _ q a. apply sound; auto.
  - rewrite <- exp_0. apply exp_le. apply Qle_Rle in lifetime_nonneg. unfold Q2R in lifetime_nonneg at 1.
    simpl in lifetime_nonneg. lra.
  - intros h q _ Hd. unfold window_rule in Hd. destruct (kept h q); [discriminate|].
    destruct (_ && _) eqn:E; [|discriminate]. apply andb_true_iff in E as [_ E].
    rewrite charged_exp, <- exp_plus. apply exp_le. rewrite <- Q2R_plus. apply Qle_Rle.
    apply Qle_bool_iff in E. rewrite Qplus_comm. exact E.
Qed.

(** Theorem. In each window, what one analyst is charged stays below the cap. *)
Theorem window_cap_holds w n s t : (0 <= cap n)%Q -> (spent_in w n (final window_rule s [] t) <= cap n)%Q.
Proof.
  intros C. apply (final_invariant _ (fun h => (spent_in w n h <= cap n)%Q)); simpl; auto.
  intros h q a H Hd. unfold window_rule in Hd. destruct (kept h q); [discriminate|].
  destruct (_ && _) eqn:E; [|discriminate]. apply andb_true_iff in E as [E _].
  destruct (EW (window q) w) as [<-|]; auto. destruct (EN (asker q) n) as [<-|]; auto.
  apply Qle_bool_iff in E. exact E.
Qed.
End Windows.
